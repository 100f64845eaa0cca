"""Several runs → verdict: `plan` says what is run, `lab` runs it, `search` decides what is next."""
