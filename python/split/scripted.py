"""Reads a torch.jit.ScriptModule as the text of a graph: walks its forward, with the tables of graph.py. No tensors are computed.

Numbers, lists and branches on them are evaluated, so this also reads code that torch.fx cannot follow."""
import inspect
import math
import operator

import torch
import torch.nn.functional as F
from torch import nn

from . import aliases, compared, errors, graph, heads, tracing
from .again import Attributes, Recording
from .builder import UNREAD as _UNKNOWN, Builder, Last, Own, Value, of_call  # also of what depends on the rows of a call
from .lora import Lora
from .reduce import Weights

_NUMBERS = {"eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
            "add": operator.add, "sub": operator.sub, "mul": operator.mul, "floordiv": operator.floordiv, "div": operator.truediv,
            "remainder": operator.mod, "neg": operator.neg, "__not__": operator.not_, "__and__": operator.and_,
            "__or__": operator.or_, "Int": int, "Float": float, "Bool": bool, "sqrt": math.sqrt, "pow": operator.pow}
_CHANGE = {"append": list.append, "extend": list.extend, "add_": list.extend, "insert": list.insert, "pop": list.pop, "clear": list.clear,
           "reverse": list.reverse, "_set_item": operator.setitem, "Delete": operator.delitem,
           "sort": lambda x, down=False: x.sort(reverse=down)}
_MAKE = {"ones": 1, "zeros": 1, "full": 2}  # tensors that are equal in each call; the number of arguments before the dtype
_LEAVES = {f"__torch__.{m.__module__}.{m.__name__}": m for m in graph.MODULES if m is not Lora}


class _Sub:
    """A module, or a tensor that a module holds, and its path. learns: the tensor is a parameter."""

    def __init__(self, held, path, learns=False):
        self.held, self.path, self.learns = held, path, learns


class _Held(list):
    """A list that a module holds. A change would last until the next call, so it is refused."""

    def __init__(self, items):
        super().__init__(_Held(i) if isinstance(i, (list, tuple)) else i for i in items)


def _unclear(i):
    """Whether i may differ from call to call."""
    return i is _UNKNOWN or of_call(i)


def _is_constant(i):
    """Whether i is a number, or a tensor that does not learn."""
    if isinstance(i, _Sub):
        return isinstance(i.held, torch.Tensor) and not i.learns
    return not _unclear(i) and not isinstance(i, (Value, Own))


def _leaf(m):
    """The class of torch.nn that a scripted module was made of, if MODULES has it."""
    found = _LEAVES.get(tracing.scripted_class(m))
    lacks = found and not list(m.children()) and [k for k in getattr(found, "__constants__", ()) if not hasattr(m, k)]
    if lacks:
        raise errors.config(f"{m.original_name} is a traced module, which does not say its {lacks[0]}: use torch.jit.script")
    return found


class _Walk:
    """attributes: gets what is read of modules beside tensors and layers, by path."""

    def __init__(self, builder, attributes):
        self.b, self.names, self.attributes = builder, {}, attributes

    def unique(self, word):
        n = self.names[word] = self.names.get(word, -1) + 1
        return f"{word}_{n}" if n else word

    def module(self, sub, method, args):
        leaf = _leaf(sub.held) if method == "forward" else None
        if leaf:
            args = [self.own(a) for a in args]
            return graph.call_module(self.b, graph.MODULES[leaf], sub.path or "0", sub.held, sub.path + "." * bool(sub.path), args, {})
        return self.graph(sub.held._c._get_method(method).graph, [sub, *args])

    def graph(self, g, args):
        env = dict(zip((i.debugName() for i in g.inputs()), args))
        found = self.block(g, env)
        return found[0] if len(found) == 1 else tuple(found)

    def block(self, block, env):
        for node in block.nodes():
            try:
                found = self.node(node, [env[i.debugName()] for i in node.inputs()], env)
            except errors.ConfigError as e:
                raise errors.at(e, tracing.line_of(node.sourceRange()))
            names = [o.debugName() for o in node.outputs()]
            env.update(zip(names, [found] if len(names) == 1 else found if names else ()))
        result = block.return_node() if hasattr(block, "return_node") else block.returnNode()
        return [env[i.debugName()] for i in result.inputs()]

    def node(self, node, ins, env):
        kind, _, word = node.kind().partition("::")
        changes = kind != "prim" and word != "warn" and (not node.outputsSize() or "!" in node.schema())
        if changes and not (kind == "aten" and isinstance(ins[0], Value)):
            return self.change(word, *ins)
        if kind == "aten":
            return self.aten(word, ins)
        method = getattr(self, f"prim_{word}", None)
        if word in ("ListConstruct", "TupleConstruct"):
            return ins
        if word in ("TupleUnpack", "ListUnpack", "unchecked_cast"):
            return ins[0]
        return method(node, ins, env) if method else _UNKNOWN

    # ---- nodes other than functions of tensors

    def prim_Constant(self, node, ins, env):
        t = node.output().type()
        return t.annotation_str if t.kind() == "FunctionType" else node.output().toIValue()

    def prim_GetAttr(self, node, ins, env):
        name, owner = node.s("name"), ins[0]
        found = getattr(owner.held, name)
        tracing.check_read(name, owner.held)
        whole = isinstance(found, (torch.nn.Module, torch.Tensor))
        learns = any(name == n for n, _ in owner.held.named_parameters(recurse=False))
        path = f"{owner.path}.{name}" if owner.path else name
        if not whole and name != "training":
            self.attributes[path] = found
        return _Sub(found, path, learns) if whole else _Held(found) if isinstance(found, (list, tuple)) else found

    def prim_CallMethod(self, node, ins, env):
        return self.module(ins[0], node.s("name"), ins[1:])

    def prim_CallFunction(self, node, ins, env):
        place, _, word = tracing.unmangled(ins[0]).rpartition(".")  # overloads have names of their own
        if place == "__torch__.torch.nn.functional":
            word = word.lstrip("_")  # _max_pool2d
            return self.function(word, getattr(F, word), ins[1:])
        return self.graph(torch.jit._state._python_cu.find_function(ins[0]).graph, ins[1:])

    def prim_If(self, node, ins, env):
        return self.many(node, self.block(list(node.blocks())[not self.known(ins[0])], env))

    def prim_Loop(self, node, ins, env):
        most, on, *carried = ins
        body, n = next(node.blocks()), 0
        if not isinstance(most, int):
            raise errors.config("a loop depends on what is known in a call alone")
        while n < most and self.known(on):
            env.update(zip((i.debugName() for i in body.inputs()), [n, *carried]))
            on, *carried = self.block(body, env)
            n += 1
        return self.many(node, carried)

    @staticmethod
    def known(condition):
        if not isinstance(condition, bool):
            raise errors.config("a branch depends on what is known in a call alone")
        return condition

    @staticmethod
    def many(node, found):
        return found[0] if node.outputsSize() == 1 else found

    def prim_CreateObject(self, node, ins, env):
        raise errors.config("a with statement, such as torch.no_grad(), is not known on the server")

    def prim_SetAttr(self, node, ins, env):
        raise errors.config(f"it changes {node.s('name')}, which the server would never see")

    def prim_TupleIndex(self, node, ins, env):
        return ins[0][ins[1]]

    def prim_RaiseException(self, node, ins, env):
        raise errors.config(f"it raises {ins[0]}")

    @staticmethod
    def change(word, x, *args):
        """Changes a list in place: it is a Python list here, and every name of it sees the change."""
        if type(x) is not list or word not in _CHANGE:
            raise errors.config(f"{word} changes what the module holds, or what is no list of forward's own: write it without that")
        found = _CHANGE[word](x, *args)
        return found if word == "pop" else x

    # ---- functions

    def aten(self, word, ins):
        x = ins[0] if ins else None
        if word in ("__is__", "__isnot__") and None in ins and not any(i is _UNKNOWN for i in ins):
            return (ins[0] is ins[1]) == (word == "__is__")
        if isinstance(x, (list, tuple)) and word == "slice":
            return x[ins[1]:ins[2]:ins[3]]
        if isinstance(x, (list, tuple)) and word in ("__getitem__", "len", "add", "list", "copy"):
            return len(x) if word == "len" else [*x, *ins[1]] if word == "add" else x[ins[1]] if word == "__getitem__" else list(x)
        if isinstance(x, Value) and word in ("dim", "size"):
            shape = heads.sizes(self.b, x)
            return len(shape) if word == "dim" else shape[ins[1]] if len(ins) > 1 else shape
        flat = [part for i in ins for part in (i if isinstance(i, (list, tuple)) else [i])]
        if word in graph.OF_CONSTANTS and any(isinstance(i, _Sub) for i in ins) and all(_is_constant(i) for i in flat):
            held = [i.held if isinstance(i, _Sub) else i for i in ins]
            named = {"alpha": held.pop()} if word in ("add", "sub") else {}  # the op of two tensors takes it by name alone
            found = getattr(torch.ops.aten, word)(*held, **named)
            self.b.reads(found, *(self.own(i) for i in flat if word not in ("size", "dim")))
            return _Sub(found, self.unique(word) + ".constant") if isinstance(found, torch.Tensor) else found
        if word in _MAKE and not any(map(_unclear, flat)):
            n = _MAKE[word]
            return _Sub(getattr(torch.ops.aten, word)(*ins[:n], dtype=ins[n]), self.unique(word) + ".constant")
        if any(isinstance(i, (Value, Own, _Sub)) for i in flat):
            called = next((f for f in (word, getattr(torch, word, None), getattr(F, word, None)) if f in graph.FUNCTIONS), None)
            return self.function(word, called, ins)
        return _NUMBERS[word](*ins) if word in _NUMBERS and not any(map(_unclear, flat)) else _UNKNOWN

    @staticmethod
    def own(a):
        return Own(a.path, a.held, a.learns) if isinstance(a, _Sub) else a

    def function(self, word, called, args):
        name = self.unique(word.rstrip("_"))
        args = [self.own(a) for a in args]
        build = graph.function_of(called, word)
        if not build or any(a is _UNKNOWN for a in args):
            raise graph.unknown(name, word)
        target = called if callable(called) else word
        if build is graph.FUNCTIONS["mean"] or word == "sum":  # the last of two or four arguments is a dtype
            args = args[:1] if len(args) < 4 else args[:3 + (args[3] is not None)]
        return graph.call_function(self.b, build, name, target, args, {})


def _read_script(b, module, attributes):
    try:
        others = module._c._get_method("forward").schema.arguments[1 + len(b.inputs):]
        out = _Walk(b, attributes).module(_Sub(module, ""), "forward", [*b.inputs, *(a.default_value for a in others)])
        return tuple(out) if isinstance(out, list) else out
    except (AttributeError, NotImplementedError, TypeError, RuntimeError, LookupError, ValueError) as e:
        raise errors.config(f"the graph of {module.original_name} cannot be read: {e}") from e


def _checked(b, out, names):
    """The output, or a tuple of outputs, without the nodes that nothing reads. Refuses what is no tensor, or no tuple of them, and what
    would cross twice, or without need."""
    if not isinstance(out, (Value, tuple)):
        word = "dict" if isinstance(out, dict) else "comparison or attribute of a tensor" if out is _UNKNOWN else type(out).__name__
        raise errors.config(f"forward gives a {word}: a tensor, or a tuple of tensors, can cross")
    if b.whole and isinstance(out, tuple):
        raise errors.config("the network gives a tuple: a file has a network of one output")
    outputs = out if isinstance(out, tuple) else (out,)
    if not b.nodes or not outputs or not all(isinstance(v, Value) for v in outputs):
        raise errors.config("what forward gives is no tensor that it computes, nor a tuple of such")
    if any(isinstance(v, Last) for v in outputs):
        raise errors.config("channels come last in the output: permute them back, or begin the tail in front of that")
    aliases.check("the output", outputs)
    numbers = [v.number for v in outputs]
    if len(numbers) > 1 and min(numbers) < len(b.inputs):
        raise errors.config(f"forward gives back {names[min(numbers)]}, which the script has")
    if len(set(numbers)) < len(numbers):
        raise errors.config("forward gives one tensor twice: it crosses once, and the script can use it twice")
    if b.whole and isinstance(out, Weights):
        raise errors.config("the network ends with a softmax: leave that out, the loss of model.task has it")
    outputs = b.read_alone(outputs)
    for i, name in enumerate(names[:len(b.inputs)] if len(b.inputs) > 1 else ()):
        if not any(i + bool(b.whole and i) in ins for _, ins, _, _ in b.nodes):  # a label is number 1
            raise errors.config(f"forward does not read {name}: leave it out of example and of the calls")
    return outputs if isinstance(out, tuple) else outputs[0]


def _filled(of, training, shapes, names, per_token, made, **how):
    b = Builder(shapes[0][0], [shape[1:] for shape in shapes], per_token, **made, **how)
    out = of(b, training)
    return b, _checked(b, out, names)


def _both_modes(filled, module):
    """filled(training) returns a builder and the output. The server has one graph for training and evaluation; only dropout and batch norms behave
    differently there."""
    def text(training):
        b, out = filled(training, without_dropout=True, evaluates=not training)
        return b.text(out, lambda p: ""), [p.constant for p in b.params]
    found = filled(True)
    held = {key for key, _ in (*module.named_parameters(), *module.named_buffers())}
    twice = next((p.key for p in found[0].params if p.constant is None and p.key not in held), None)
    if twice:
        raise errors.config(f"{twice}: its layer is in two places of what the server computes as one layer, such as an encoder: give each "
                            "place a layer of its own")
    (trains, own), (evaluates, other) = text(True), text(False)
    if trains != evaluates or not all(t is u or torch.equal(t, u) for t, u in zip(own, other)):
        raise errors.config("forward computes something else in evaluation than in training, or in each call; the server has one "
                            "computation, in which dropout and batch norms alone tell the two apart")
    found[0].filled, found[0].bare = filled, trains
    return found


def argument_names(module, n):
    """The names of forward's arguments, of which n are tensors of a call and the others have a default value."""
    if isinstance(module, torch.jit.ScriptModule):
        given = [(a.name, a.has_default_value()) for a in module._c._get_method("forward").schema.arguments[1:]]
    else:
        given = [(a.name, a.default is not a.empty or a.kind is a.VAR_KEYWORD) for a in inspect.signature(module.forward).parameters.values()
                 if a.kind is not a.KEYWORD_ONLY or a.default is a.empty]
    names = [name for name, _ in given]
    lacks = next((name for name, usual in given[n:] if not usual), None)
    if lacks or len(names) < n:
        raise errors.config(f"forward takes {', '.join(names)}, and example has {'one tensor' if n == 1 else f'{n} tensors'}: give it the "
                            f"shape of each tensor{f', also of {lacks}' if lacks else ''}")
    return names


def read(module, shapes, per_token=False, whole=None, still=(), again=False):
    """Returns the builder, whose params refer to the module, and the output, or a tuple of outputs. Reads by torch.fx; if that cannot
    follow, or a part is scripted, by the graph of the scripted module. shapes: of a call's inputs. whole, still: as Builder has them.
    again: it was read before, and is not compared with forward."""
    tracing.check(module)
    try:
        return _read(module, shapes, per_token, {"whole": whole, "still": still}, again)
    except errors.ConfigError as e:
        raise errors.at(e, tracing.line_of_forward(module))


def _read(module, shapes, per_token, made, again):
    names, why, ids = argument_names(module, len(shapes)), None, made["whole"] == "tokens"
    both = lambda of, m: _both_modes(lambda training, **how: _filled(of, training, shapes, names, per_token, made, **how), m)
    if not any(isinstance(m, torch.jit.ScriptModule) for m in module.modules()):
        root, strip = (nn.Sequential(module), "0.") if graph.builder_of(module) else (module, "")
        try:
            recorded = Recording(root, strip, shapes, per_token, made)
        except errors.ConfigError as e:
            why = e
        else:
            found = both(recorded.of, module)
            found[0].recorded = recorded
            if not again:
                compared.check(root, recorded, shapes, ids)
            return found
    own = compared.raised(module, shapes, ids) if hasattr(why, "unrecorded") else None
    if own:
        raise errors.at(errors.config(f"forward raises {type(own[0]).__name__} in PyTorch, too, for random numbers of example's shape: {own[0]}"), own[1]) from own[0]
    try:
        script = module if isinstance(module, torch.jit.ScriptModule) else torch.jit.script(module)
    except Exception as e:
        raise why or errors.config(f"torch.jit.script cannot read {type(module).__name__}, a part of which is scripted: script the whole, or no part") from e
    read = {}

    def of_script(b, training):
        with tracing.mode(script, training):
            return _read_script(b, script, read)
    try:
        found = both(of_script, module)
    except errors.ConfigError as e:
        raise e if not why else errors.config(f"{why}. By torch.jit.script: {e}") if hasattr(why, "unrecorded") else why
    found[0].recorded = Attributes(module, read)
    return found
