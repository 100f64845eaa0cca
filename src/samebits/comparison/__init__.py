"""Two recordings → their first divergence: `align` pairs, `locate` finds the place, `values` measures it. No torch."""
