"""`samebits resume`: a training is killed and started again; does it continue with the same bits, and if not, why not?"""
