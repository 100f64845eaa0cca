"""What a run did: `streams` and `digest` write it inside the run; `folder`, `store`, `journal` do without torch."""
