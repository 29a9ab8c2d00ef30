"""The operators, one module per mechanism: softmax and flash attention, heads, linear attention, delta rules, state
spaces, fixed patterns and hashing, block selection, positions.

Tensors are ``(..., T, d)``: a head is the last two axes, so a hand calculation is a plain ``(T, d)`` matrix and a model
is ``(B, h, T, d)``, the layout of ``torch.nn.functional.scaled_dot_product_attention`` (the field's kernels use
``(B, T, h, d)``). Leading axes must be equal, nothing is broadcast unless a docstring says so, and a wrong argument
raises a ``ValueError`` that names it. Half-precision inputs are computed in fp32 and returned in their own dtype;
states and log-sum-exps of half-precision inputs stay fp32. ``torch.autocast`` changes none of this, as long as the
backward pass runs outside its region, as torch wants it to. Decays and steps are checked by value, so an operator that
has them can be neither vmapped over them nor traced on meta tensors (a delta rule without ``g`` can).
"""
