"""Formulas for torch operations that race or refuse, with a fixed order of additions."""
