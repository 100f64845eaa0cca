"""Operations of torch that race or refuse, computed by formulas of ours whose order of additions is fixed."""
