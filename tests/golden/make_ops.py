"""Writes tests/golden/ops.h: what PyTorch makes of small inputs, forward, backward and in running statistics, computed in
double and laid out as common/graph/op.h has it (NHWC, weights OHWI or HWC).
Run: python3 tests/golden/make_ops.py | clang-format --assume-filename=x.h > tests/golden/ops.h"""
import torch
import torch.nn.functional as F

torch.manual_seed(7)
torch.set_default_dtype(torch.float64)
cases = []


def draw(*shape, low=-32, high=33):
    """Multiples of 1/16: exact in float."""
    return torch.randint(low, high, shape) / 16


def emit(name, v, kind="float"):
    v = v.detach().contiguous().flatten().tolist()
    text = ["%d" % e if kind == "int32_t" else ("%.9g" if any(c in "%.9g" % e for c in ".e") else "%.1f") % e + "f" for e in v]
    print("static const %s %s[] = {%s};" % (kind, name, ", ".join(text)))
    return name


def nhwc(t):
    return t.permute(0, 2, 3, 1) if t.dim() == 4 else t


def weight_layout(t, depthwise):
    return t[:, 0].permute(1, 2, 0) if depthwise else nhwc(t)


def case(name, kind, x, attr, run, params=(), depthwise=False, after=None, extra=""):
    """attr: C text of the op_case's union; run(x, *params) → out; after() → tensors of running statistics."""
    x = x.requires_grad_()
    params = [p.requires_grad_() for p in params]
    before = after() if after else []
    fields = [".name = \"%s\"" % name]
    stats = [emit("%s_param%d" % (name, len(params) + i), t) for i, t in enumerate(before)]
    out = run(x, *params)
    dout = draw(*out.shape) if out.dim() else torch.ones(())
    out.backward(dout)
    shape = nhwc(x).shape if x.dim() == 4 else (x.shape[0], 0, 0, x.shape[1])
    fields.append(".c = {.kind = SL_OP_%s, .n = %d, .h = %d, .w = %d, .c = %d, %s %s}" % (kind, *shape, attr, extra))
    fields.append(".in = " + emit(name + "_in", nhwc(x)))
    fields.append(".din = " + emit(name + "_din", nhwc(x.grad)))
    if out.dim():
        fields.append(".dout = " + emit(name + "_dout", nhwc(dout)))
        fields.append(".out = " + emit(name + "_out", nhwc(out)))
    else:
        fields.append(".loss = %.17g" % out)
    names = []
    for i, p in enumerate(params):
        lay = (lambda t: weight_layout(t, depthwise)) if p.dim() == 4 else (lambda t: t)
        names.append(emit("%s_param%d" % (name, i), lay(p)))
        fields.append(".grad[%d] = " % i + emit("%s_grad%d" % (name, i), lay(p.grad)))
    fields += [".param[%d] = %s" % (i, n) for i, n in enumerate(names + stats)]
    for i, t in enumerate(after() if after else []):
        fields.append(".param_after[%d] = " % (len(params) + i) + emit("%s_after%d" % (name, len(params) + i), t))
    cases.append(fields)


def conv(name, n, i, h, w, o, kh, kw, s, p, bias, depthwise=False, groups=1, dilation=1):
    groups = i if depthwise else groups
    params = [draw(o, i // groups, kh, kw)] + ([draw(o)] if bias else [])
    attr = ".u.conv = {%d, %d, %d, %d, %d, %d, %d, %s, %d}," % (i, o, kh, kw, s, p, groups, str(bias).lower(), dilation)
    case(name, "CONV2D", draw(n, i, h, w), attr,
         lambda x, w, b=None: F.conv2d(x, w, b, s, p, dilation, groups), params, depthwise)


def convt(name, n, i, h, w, o, kh, kw, s, p, oph, opw, bias, groups=1):
    params = [draw(i, o // groups, kh, kw)] + ([draw(o)] if bias else [])
    attr = ".u.convt = {%d, %d, %d, %d, %d, %d, %d, %d, %s, %d}," % (i, o, kh, kw, s, p, oph, opw, str(bias).lower(), groups)
    case(name, "CONVT2D", draw(n, i, h, w), attr, lambda x, w, b=None: F.conv_transpose2d(x, w, b, s, p, (oph, opw), groups), params, groups == i == o and i > 1)


def bn(name, n, c, h, w, act, training):
    mean, var = draw(c), draw(c, low=8, high=32)
    acts = {"NONE": lambda y: y, "RELU": F.relu, "RELU6": F.relu6}
    attr = ".u.bn = {%d, 1e-5f, 0.1f, SL_ACT_%s}," % (c, act)

    def run(x, weight, bias):
        return acts[act](F.batch_norm(x, mean, var, weight, bias, training, 0.1, 1e-5))

    case(name, "BATCHNORM", draw(n, c, h, w), attr, run, [draw(c), draw(c, low=-16, high=64)],
         after=lambda: [mean.clone(), var.clone()], extra="" if training else ".eval = true,")


def pool(name, kind, n, c, h, w, k, s, p, x=None):
    if kind == "MAXPOOL":
        run = lambda x: F.max_pool2d(x, k or (h, w), s if k else 1, p)
    else:
        run = lambda x: F.avg_pool2d(x, k or (h, w), s if k else 1, p)
    case(name, kind, draw(n, c, h, w) if x is None else x, ".u.pool = {%d, %d, %d}," % (k, s, p), run)


def attention(name, rows, s, heads, kv, d, causal=False, rope=0.0):
    """Rows as tests/support/op_rig.c lays them: S tokens on average, no two neighbours alike."""
    begin = [i * s - (s // 2 if i < rows and i % 2 else 0) for i in range(rows + 1)]
    q, k, v = (draw(rows * s, n * d).requires_grad_() for n in (heads, kv, kv))

    def turn(x, n):  # features c and c + D/2 are a complex number
        z = torch.complex(*x.view(len(x), n, 2, d // 2).unbind(2))
        angle = torch.arange(len(x))[:, None] * rope ** (-torch.arange(0, d, 2) / d)
        z = z * torch.polar(torch.ones_like(angle), angle)[:, None]
        return torch.cat([z.real, z.imag], -1).flatten(1)

    def shared(x):
        return x.view(len(x), kv, d).repeat_interleave(heads // kv, 1).flatten(1)[:, None]

    out = []
    for a, b in zip(begin, begin[1:]):
        rq, rk, rv = q[a:b], k[a:b], v[a:b]
        if rope:
            rq, rk = turn(rq, heads), turn(rk, kv)
        eye, n = torch.eye(heads * d), b - a
        out.append(F.multi_head_attention_forward(
            rq[:, None], shared(rk), shared(rv), heads * d, heads, torch.eye(heads * d).repeat(3, 1), None, None, None, False, 0.0,
            eye, None, need_weights=False, attn_mask=torch.ones(n, n).triu(1).bool() if causal else None)[0][:, 0])
    out = torch.cat(out)
    dout = draw(*out.shape)
    out.backward(dout)
    fields = [".name = \"%s\"" % name, ".c = {.kind = SL_OP_ATTENTION, .n = %d, .h = %d, .c = %d, "
              ".u.attention = {%d, %d, %s, %rf, 0}}" % (rows, s, heads * d, heads, kv, str(causal).lower(), rope)]
    for i, x in enumerate((q, k, v)):
        fields.append(".in%s = " % ("", "_b", "_c")[i] + emit("%s_in%d" % (name, i), x))
        fields.append(".din%s = " % ("", "_b", "_c")[i] + emit("%s_din%d" % (name, i), x.grad))
    fields += [".dout = " + emit(name + "_dout", dout), ".out = " + emit(name + "_out", out)]
    cases.append(fields)


print("/* Written by tests/golden/make_ops.py with PyTorch %s. */" % torch.__version__.split("+")[0])
print('#ifndef SL_GOLDEN_OPS_H\n#define SL_GOLDEN_OPS_H\n\n#include "tests/support/op_case.h"\n')
conv("conv_stem", 2, 3, 7, 6, 5, 3, 3, 2, 1, False)
conv("conv_bias", 1, 2, 5, 5, 3, 3, 3, 1, 2, True)
conv("conv_point", 3, 4, 2, 3, 3, 1, 1, 1, 0, True)
conv("conv_uneven", 2, 2, 4, 6, 2, 2, 5, 1, 0, False)
conv("depthwise", 2, 4, 4, 5, 4, 3, 3, 1, 1, False, True)
conv("depthwise_five", 1, 3, 6, 7, 3, 5, 5, 2, 2, True, True)
bn("batchnorm", 3, 4, 2, 3, "NONE", True)
bn("batchnorm_relu", 2, 3, 3, 3, "RELU", True)
bn("batchnorm_relu6", 4, 3, 2, 2, "RELU6", True)
bn("batchnorm_eval", 2, 5, 2, 2, "RELU6", False)
for act in ("relu", "relu6"):  # multiples of 1/2: exact kinks
    case(act, "ACT", torch.randint(-4, 16, (2, 3, 3, 4)) / 2, ".u.act = SL_ACT_%s," % act.upper(), getattr(F, act))
pool("maxpool", "MAXPOOL", 2, 3, 7, 6, 3, 2, 1)
pool("maxpool_ties", "MAXPOOL", 2, 2, 6, 6, 3, 1, 1, torch.randint(-2, 2, (2, 2, 6, 6)) / 2)
pool("maxpool_plane", "MAXPOOL", 2, 5, 3, 2, 0, 1, 0)
pool("avgpool", "AVGPOOL", 2, 3, 7, 6, 3, 2, 1)
pool("avgpool_plane", "AVGPOOL", 2, 5, 3, 2, 0, 1, 0)
case("linear", "LINEAR", draw(3, 5), ".u.linear = {.in_f = 5, .out_f = 4, .bias = true},", F.linear, [draw(4, 5), draw(4)])
labels = torch.tensor([0, 6, 3, 3, 1])
case("xent", "XENT", draw(5, 7, low=-80, high=81), "", lambda x: F.cross_entropy(x, labels, reduction="sum"))
cases[-1].append(".labels = " + emit("xent_labels", labels, "int32_t"))
# last, so that the numbers of the others stay
kept = torch.get_rng_state()
convt("convt_restore", 2, 4, 3, 3, 2, 3, 3, 3, 0, 1, 1, True)
convt("convt_uneven", 2, 3, 4, 2, 4, 2, 5, 2, 1, 1, 0, False)
convt("convt_overlap", 1, 2, 4, 5, 3, 5, 3, 2, 2, 0, 1, True)
torch.set_rng_state(kept)
convt("convt_grouped", 2, 4, 3, 4, 6, 3, 2, 2, 0, 1, 0, True, 2)
convt("convt_depthwise", 2, 5, 4, 3, 5, 3, 3, 2, 1, 1, 1, False, 5)
torch.set_rng_state(kept)
case("gelu", "GELU", draw(4, 6, low=-80, high=81), "", F.gelu)
torch.set_rng_state(kept)
some = torch.tensor([4, -100, 0, 2, -100])
for name, smoothing in (("xent_smooth", 0.1), ("xent_ignored", 0.0), ("xent_both", 0.3)):
    state = torch.get_rng_state()
    ignores = name != "xent_smooth"
    targets = some if ignores else labels
    case(name, "XENT", draw(5, 7, low=-80, high=81), ".rule = {.smoothing = %rf, .ignores = %s, .ignored = -100}," % (smoothing, str(ignores).lower()),
         lambda x: F.cross_entropy(x, targets, reduction="sum", label_smoothing=smoothing, ignore_index=-100))
    cases[-1].append(".labels = " + emit(name + "_labels", targets, "int32_t"))
    torch.set_rng_state(state)
torch.set_rng_state(kept)
# torch's soft targets, one row of which has one label twice
other, share = torch.tensor([2, 6, 0, 1, 5]), torch.tensor([0.5, 0.75, 0.9375, 0.625, 1.0])
soft = share[:, None] * F.one_hot(labels, 7) + (1 - share)[:, None] * F.one_hot(other, 7)
for name, smoothing in (("xent_mixed", 0.0), ("xent_mixed_smooth", 0.25)):
    case(name, "XENT", draw(5, 7, low=-80, high=81), ".rule = {.smoothing = %rf}, .mixed = true," % smoothing,
         lambda x: F.cross_entropy(x, soft, reduction="sum", label_smoothing=smoothing))
    cases[-1].append(".labels = " + emit(name + "_labels", labels, "int32_t"))
    cases[-1].append(".other = " + emit(name + "_other", other, "int32_t"))
    cases[-1].append(".share = " + emit(name + "_share", share))
torch.set_rng_state(kept)
conv("conv_groups", 2, 6, 4, 5, 4, 3, 3, 1, 1, True, groups=2)
conv("conv_groups_many", 1, 3, 5, 4, 6, 3, 3, 2, 1, False, groups=3)
conv("conv_dilated", 2, 2, 6, 7, 3, 3, 2, 1, 2, True, dilation=2)
conv("conv_groups_dilated", 1, 4, 7, 6, 4, 3, 3, 2, 3, False, groups=2, dilation=3)
conv("depthwise_dilated", 2, 3, 6, 5, 3, 3, 3, 1, 2, True, True, dilation=2)
torch.set_rng_state(kept)
case("gelu_tanh", "GELU", draw(4, 6, low=-80, high=81), ".u.gelu.tanh = true,", lambda x: F.gelu(x, approximate="tanh"))
case("silu", "SILU", draw(4, 6, low=-80, high=81), "", F.silu)
case("tanh", "TANH", draw(4, 6, low=-80, high=81), "", torch.tanh)
case("layernorm", "LAYERNORM", draw(4, 9), ".norm_bias = true, .u.norm.eps = 1e-5f,", lambda x, w, b: F.layer_norm(x, (9,), w, b, 1e-5),
     [draw(9), draw(9)])
case("layernorm_plain", "LAYERNORM", draw(3, 20) + 30, ".u.norm.eps = 0.125f,", lambda x, w: F.layer_norm(x, (20,), w, None, 0.125),
     [draw(20)])
case("rmsnorm", "RMSNORM", draw(4, 9), ".u.norm.eps = 1e-5f,",
     lambda x, w: x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * w, [draw(9)])
torch.set_rng_state(kept)
targets = draw(5, 3)
# cases from here on have numbers of their own, so that those above stay what they are
state = torch.get_rng_state()
torch.manual_seed(8)
case("elu", "ELU", draw(4, 6, low=-80, high=81), "", F.elu)
case("softplus", "SOFTPLUS", draw(4, 6, low=-80, high=81), "", F.softplus)
case("groupnorm", "GROUPNORM", draw(2, 6, 3, 4), ".norm_bias = true, .u.groupnorm = {3, 1e-5f},", lambda x, w, b: F.group_norm(x, 3, w, b), [draw(6), draw(6)])
case("instancenorm", "GROUPNORM", draw(2, 3, 3, 4) + 30, ".u.groupnorm = {3, 0.125f},", lambda x: F.instance_norm(x, eps=0.125))
for mode, (how, h, run) in enumerate([
        ("CUT", 9, lambda x: F.pad(x, (0, 0, 2, 1))), ("REFLECT", 9, lambda x: F.pad(x, (0, 0, 2, 1), "reflect")),
        ("EDGE", 9, lambda x: F.pad(x, (0, 0, 2, 1), "replicate")), ("NEAREST", 8, lambda x: F.interpolate(x, (8, 5))),
        ("LINEAR", 8, lambda x: F.interpolate(x, (8, 5), mode="bilinear")), ("ALIGNED", 8, lambda x: F.interpolate(x, (8, 5), mode="bilinear", align_corners=True)),
        ("AREA", 4, lambda x: F.adaptive_avg_pool2d(x, (4, 5))), ("MEAN", 3, lambda x: F.avg_pool2d(x, (3, 1), (2, 1), (1, 0)))]):
    attr = ".u.resample = {1, %d, SL_RESAMPLE_%s, 0, %d, %d, %d}," % (h, how, (2, 2, 2, 0, 0, 0, 0, 1)[mode], 2 if how == "MEAN" else 1, 3 if how == "MEAN" else 1)
    case("resample_" + how.lower(), "RESAMPLE", draw(2, 3, 6, 5), attr, run)
for fn in ("exp", "log", "sqrt", "reciprocal"):
    case("math_" + fn, "MATH", draw(4, 6, low=1 if fn in ("log", "sqrt") else -80, high=160) + (1 / 32 if fn == "reciprocal" else 0),
         ".u.math = {SL_MATH_%s}," % fn.upper(), getattr(torch, fn))
for name, slope in (("leakyrelu", 0.01), ("leakyrelu_steep", -1.5)):
    case(name, "LEAKYRELU", draw(4, 6, low=-80, high=81), ".u.leaky = {%rf}," % slope, lambda x: F.leaky_relu(x, slope))
torch.set_rng_state(state)

case("mse", "MSE", draw(5, 3), "", lambda x: F.mse_loss(x, targets) * 5)
cases[-1].append(".targets = " + emit("mse_targets", targets))
state = torch.get_rng_state()
weight = torch.tensor([0.25, 3.0, 1.5])
for name, fn, run, target, weighted in (
        ("mse_l1", "L1", lambda x: F.l1_loss(x, targets) * 5, targets, False),
        ("mse_huber", "HUBER", lambda x: F.huber_loss(x, targets) * 5, targets, False),
        ("mse_bce", "BCE", lambda x: F.binary_cross_entropy_with_logits(x, (targets > 0).double()) * 5, (targets > 0).double(), False),
        ("mse_bce_weighted", "BCE", lambda x: F.binary_cross_entropy_with_logits(x, (targets > 0).double(), pos_weight=weight) * 5,
         (targets > 0).double(), True)):
    case(name, "MSE", draw(5, 3), ".u.mse = {SL_MSE_%s}," % fn + (" .weighted = true," if weighted else ""), run)
    cases[-1].append(".targets = " + emit(name + "_targets", target))
    cases[-1].append(".weight = " + emit(name + "_weight", weight))
weight = torch.tensor([0.25, 3.0, 1.5, 1.0, 0.5, 2.0, 4.0])
for name, smoothing in (("xent_weighted", 0.0), ("xent_weighted_smooth", 0.25)):
    case(name, "XENT", draw(5, 7, low=-80, high=81), ".rule = {.smoothing = %rf}, .weighted = true," % smoothing,
         lambda x: F.cross_entropy(x, labels, weight, reduction="sum", label_smoothing=smoothing))
    cases[-1].append(".labels = " + emit(name + "_labels", labels, "int32_t"))
    cases[-1].append(".weight = " + emit(name + "_weight", weight))
torch.set_rng_state(kept)
attention("attention", 3, 4, 2, 2, 3)
attention("attention_causal", 3, 4, 2, 2, 3, causal=True)
attention("attention_grouped", 2, 5, 4, 2, 2)
attention("attention_rotary", 2, 5, 2, 1, 4, causal=True, rope=100.0)
torch.set_rng_state(kept)

print("""
/* One call of an op; NULL where it has no such tensor. The loss is a sum, and its gradient that of the sum. */
static const struct op_golden {
	const char *name;
	struct op_case c;
	const float *in, *in_b, *in_c, *param[SL_OP_MAX_PARAM], *dout; /* what goes in */
	const int32_t *labels;
	const int32_t *other;
	const float *share;
	const float *targets, *weight;
	const float *out, *din, *din_b, *din_c, *grad[SL_OP_MAX_PARAM], *param_after[SL_OP_MAX_PARAM]; /* what must come out */
	double loss;
} golden_ops[] = {""")
for fields in cases:
    print("{" + ", ".join(fields) + "},")
print("};\n")

for i, (lr, mu, wd, nesterov) in enumerate([(0.1, 0, 0, False), (0.4, 0.9, 1e-4, False), (0.05, 0.5, 0.25, True)]):
    w = torch.nn.Parameter(draw(9))
    emit("sgd%d_before" % i, w)
    opt = torch.optim.SGD([w], lr, mu, weight_decay=wd, nesterov=nesterov)
    grads = draw(3, 9)
    for g in grads:
        w.grad = g.clone()
        opt.step()
    emit("sgd%d_grad" % i, grads)
    emit("sgd%d_after" % i, w)
print("""
enum { GOLDEN_SGD_COUNT = 9, GOLDEN_SGD_STEPS = 3 };
static const struct {
	float lr, momentum, weight_decay;
	bool nesterov;
	const float *before, *grad, *after; /* grad: [steps, count] */
} golden_sgd[] = {
	{0.1f, 0, 0, false, sgd0_before, sgd0_grad, sgd0_after},
	{0.4f, 0.9f, 1e-4f, false, sgd1_before, sgd1_grad, sgd1_after},
	{0.05f, 0.5f, 0.25f, true, sgd2_before, sgd2_grad, sgd2_after},
};
""")

settings = [("ADAM", 0.001, 0.9, 0.999, 1e-8, 0), ("ADAM", 0.125, 0.5, 0.75, 1e-3, 0.25), ("ADAMW", 0.001, 0.9, 0.999, 1e-8, 0.01),
            ("ADAMW", 2e-5, 0.9, 0.999, 1e-6, 1e-4), ("ADAMW", 0.25, 0.5, 0.75, 0.125, 0.5)]
for i, (kind, lr, beta1, beta2, eps, wd) in enumerate(settings):
    w = torch.nn.Parameter(draw(9))
    emit("adam%d_before" % i, w)
    opt = (torch.optim.Adam if kind == "ADAM" else torch.optim.AdamW)([w], lr, (beta1, beta2), eps, wd)
    grads = draw(3, 9)
    for g in grads:
        w.grad = g.clone()
        opt.step()
    state = opt.state[w]
    emit("adam%d_grad" % i, grads)
    emit("adam%d_after" % i, w)
    emit("adam%d_first" % i, state["exp_avg"])
    emit("adam%d_second" % i, state["exp_avg_sq"])
print("""
static const struct {
	struct sl_optimizer how;
	double lr;
	const float *before, *grad, *after, *first, *second;
} golden_adam[] = {""")
for i, (kind, lr, beta1, beta2, eps, wd) in enumerate(settings):
    print("{{.kind = SL_OPTIMIZER_%s, .beta1 = %r, .beta2 = %r, .eps = %r, .weight_decay = %r}, %r," % (kind, beta1, beta2, eps, wd, lr))
    print(", ".join("adam%d_%s" % (i, what) for what in ("before", "grad", "after", "first", "second")) + "},")
print("""};

#endif""")
