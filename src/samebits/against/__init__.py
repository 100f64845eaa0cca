"""`samebits check --against`: the same script under another interpreter; which operation differs, and whose is it?"""
