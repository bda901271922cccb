"""What forward computes of one tensor that the module holds, as torch.exp(self.scale) or self.v ** 2. Values of the graph have rows, and
this has none: it is computed where it meets a value."""
from .builder import Later, Own

_EACH = {"add", "sub", "rsub", "mul", "truediv", "div", "pow", "square", "neg", "exp", "log", "sqrt", "rsqrt", "reciprocal", "sigmoid", "tanh",
         "relu", "softplus", "silu", "gelu", "abs"}  # names of functions that work on single numbers


def own_of(x):
    return x.of if isinstance(x, Later) else x


def of_one(b, build, name, word, args, kwargs):
    """The Later of a call; None: it is another call. Its tensors are one, and of one shape: others would be spread over each other."""
    given, others = [own_of(a) for a in args if isinstance(a, (Own, Later))], [a for a in (*args, *kwargs.values()) if not isinstance(a, (Own, Later))]
    of = given[0] if given else None
    if word not in _EACH or any(type(a) is not Own or a.tensor is not of.tensor or a.shape != of.shape for a in given) or not of or not (
            of.learns or of.tensor.numel() > 1) or not all(isinstance(a, (int, float, str)) for a in others):
        return None
    if word == "pow" and (len(given) > 1 or own_of(args[0]) is not of):
        return None

    def then(value):
        return build(b, name, *(a.then(value) if isinstance(a, Later) else value if isinstance(a, Own) else a for a in args), **kwargs)
    return Later(of, then)
