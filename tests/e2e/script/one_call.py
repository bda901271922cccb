"""usage: one_call.py SERVER: the installed package and library compute one call. For packages and the wheel."""
import sys

import numpy

import split

graph = "graph 1\nin head_act f32 R[8]\nparam 0.weight [4,8] zero\nnode 0 linear %0 &0\nout mid_act %1\n"
middle = split.Middle(graph, {"0.weight": numpy.ones((4, 8))}, server=sys.argv[1], **{"train.batch": 4})
y = middle.output(middle.forward(numpy.ones((4, 8), numpy.float32), training=False))
assert y.shape == (4, 4) and (y == 8).all(), y
middle.close()
print(split.__file__)
