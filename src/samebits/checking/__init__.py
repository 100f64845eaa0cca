"""Several runs → verdict: `plan` says what is run, `pool` runs them, `search` decides what is next."""
