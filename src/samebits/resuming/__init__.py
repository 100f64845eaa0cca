"""`samebits resume`: a training is killed and started again; does it go on with the same bits, and if not, why not?"""
