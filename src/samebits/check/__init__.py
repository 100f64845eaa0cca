"""Several runs → verdict: `plan` says what is run, `lab` runs it, `experiments` decides what is next."""
