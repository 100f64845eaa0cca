"""`samebits resume`: a training is killed and restarted; does it continue with the same bits, and if not, why not?"""
