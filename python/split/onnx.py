"""ONNX files, converted to the files that `model.network` of a config names: python3 -m split.onnx NET.onnx NET.safetensors"""
import argparse
import sys

from . import errors
from .network import save
from .onnx_file import File
from .onnx_kinds import read
from .onnx_reader import Reader
from .onnx_recurrent import skip
from .onnx_views import Held


def _output(r):
    """The network's output as a value of the graph."""
    skip(r)
    v, name = r.read(read), r.file.output[:96]
    if not isinstance(v, Held) or v is r.input or v.border or v.summed:
        raise errors.config(f"no node makes its output {name!r}")
    if v.weights:
        raise errors.config("the network ends with a softmax: leave that out, the loss of model.task has it")
    if r.b.of_tokens(v.of):
        raise errors.config(f"its output {name!r} is of every token: of a text's first token take x[:, 0], of all x.mean(1)")
    if len(v.axes) not in (2, 4) or v.axes[0] != [r.batch]:
        raise errors.config(f"its output {name!r} is {list(v.shape)}: give [batch, classes], or [batch, classes, height, width]")
    r.name = "output"
    return r.b.read_alone((r.canonical(v),))[0]


def _read(*given):
    """The reader and the graph's text. Rows of token ids have lengths of their own, if the network allows that."""
    r = Reader(*given)
    try:
        out = _output(r)
    except errors.ConfigError:
        if not r.b.per_token or r.masked:
            raise
        r = Reader(*given, whole=True)
        out = _output(r)
    return r, r.b.text(out, lambda p: "frozen" if p.constant is not None else "stat" if p.key in r.stats else "")


def convert_onnx(onnx, file, image=None, tokens=None, pad=None):
    """Writes the network of an ONNX file, with its weights, to a safetensors file. image: height and width, and tokens: the most tokens of
    a row, where the ONNX file leaves them open. pad: the token that rows are padded with, if the network must tell that from others.
    Returns notes for the user."""
    try:
        source = File(onnx)
        form, shape, batch = source.takes(image, tokens)
        r, text = _read(source, form, shape, batch or 3, pad)
        if not batch and _read(source, form, shape, 5, pad)[1] != text:
            raise errors.config("it computes with the number of samples; in place of a sum divided by it take x.mean()")
        if r.b.per_token and source.open_tokens and shape[0] > 2:
            fewer = _read(source, form, (shape[0] - 1,), batch or 3, pad)[1]
            if fewer != text.replace(f"most={shape[0]}", f"most={shape[0] - 1}"):
                raise errors.config("it computes with the number of tokens; in place of a sum divided by it take x.mean(1)")
        save(r.b, text, {p.key: p.tensor for p in r.b.params}, file, **({} if r.pad is None else {"pad": int(r.pad)}))
    except errors.Error as e:
        raise errors.named(e, onnx)
    except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, MemoryError, RecursionError) as e:
        raise errors.named(errors.data(f"it is malformed ({type(e).__name__}: {e})"), onnx) from e
    return r.notes


def main(args=None):
    def sides(text):
        given = text.split("x")
        if len(given) > 2 or not all(n.isdigit() for n in given):
            raise argparse.ArgumentTypeError("give 64, or height and width as 64x48")
        return [int(n) for n in given * 2][:2]
    parser = argparse.ArgumentParser(prog="python3 -m split.onnx", description="Converts an ONNX file to the file that model.network names.")
    parser.add_argument("onnx", metavar="NET.onnx")
    parser.add_argument("file", metavar="NET.safetensors")
    parser.add_argument("--image", metavar="SIDE", type=sides, help="the pictures' side, or HEIGHTxWIDTH, where the ONNX file leaves it open")
    parser.add_argument("--tokens", metavar="N", type=int, help="the most tokens of a row, where the ONNX file leaves that open")
    parser.add_argument("--pad", metavar="ID", type=int, help="the token that rows of ids are padded with")
    given = parser.parse_args(args)
    try:
        for note in convert_onnx(given.onnx, given.file, given.image, given.tokens, given.pad):
            print(note)
    except errors.Error as e:
        print(f"split.onnx: {e}", file=sys.stderr)
        return e.status
    except OSError as e:
        print(f"split.onnx: {given.file}: {e.strerror}", file=sys.stderr)
        return 73
    return 0


if __name__ == "__main__":
    sys.exit(main())
