#!/usr/bin/env python3
"""Prints what tests/unit/test_metric.c expects of each metric: sklearn's, on the data that the test makes by formula
(python3-sklearn). Calibration has no function there: its bins are counted here.
"""
import numpy as np
from sklearn import metrics as m


def classes(n, width):
    """Every row occurs twice, with other labels: ties."""
    label = np.array([(i * i // 3 + i) % width for i in range(n)])
    out = np.array([[(j * j * 37 + k * k * 61 + j * k * 7 + j * 13) % 257 for k in range(width)] for j in (i // 2 for i in range(n))], float)
    for i in range(0, n - 1, 6):
        out[i, label[i]] += 80
        out[i + 1] = out[i]
    return label, out / 16


def by_class(label, said, width, binary):
    """Specificity: the recall of each class's rest."""
    values = [m.recall_score(label != k, said != k) for k in range(width) if (label == k).any() or (said == k).any()]
    return values[1] if binary else np.mean(values)


def calibration(label, p):
    top, said = p.max(1), p.argmax(1)
    bins = np.clip(np.ceil(top * 15).astype(int) - 1, 0, 14)
    return sum(abs(((said == label) - top)[bins == b].sum()) for b in range(15)) / len(label)


def show(n, width):
    label, out = classes(n, width)
    said = out.argmax(1)
    p = np.exp(out - out.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    average = "binary" if width == 2 else "macro"
    # of two classes the difference of the logits, which is exact: rounding of the softmax would part equal ones
    score = out[:, 1:] - out[:, :1] if width == 2 else p
    one = [(label == k, score[:, 0 if width == 2 else k]) for k in range(width == 2, width) if (label == k).any()]
    auc = np.mean([m.roc_auc_score(*pair) for pair in one])
    ap = np.mean([m.average_precision_score(*pair) for pair in one])
    for name, value in (
        ("accuracy", m.accuracy_score(label, said)),
        ("matthews", m.matthews_corrcoef(label, said)),
        ("f1", m.f1_score(label, said, average=average)),
        ("precision", m.precision_score(label, said, average=average)),
        ("recall", m.recall_score(label, said, average=average)),
        ("specificity", by_class(label, said, width, width == 2)),
        ("balanced_accuracy", m.balanced_accuracy_score(label, said)),
        ("auc", auc),
        ("average_precision", ap),
        ("calibration_error", calibration(label, p)),
    ):
        print(f'is("{name}", {n}, {width}, {value:.16g});')


show(200, 7)
show(150, 2)
x = np.array([(i * 37 % 29) / 4 for i in range(100)])
y = np.array([(i * 37 % 29) / 2 - (i * 11 % 13) for i in range(100)])
print(f'is("mae", 100, 1, {m.mean_absolute_error(y, x):.16g});')
print(f'is("rmse", 100, 1, {m.mean_squared_error(y, x) ** 0.5:.16g});')
print(f'is("r2", 100, 1, {m.r2_score(y, x):.16g});')


def targets(n, width, labels):
    out = np.array([[((j * j * 37 + k * 61 + j * k * 7 + j * 13) % 97 - 48) / 16 for k in range(width)] for j in (i // 2 for i in range(n))])
    if labels:
        return out, np.array([[(i * (k + 3) + i * i // 5) % 7 < 3 for k in range(width)] for i in range(n)], int)
    return out, np.array([[out[i, k] * (k + 1) / 2 + ((i * 11 + k * 5) % 13 - 6) / 8 for k in range(width)] for i in range(n)])


def each(values):
    return "(const double[]){%s}" % ", ".join("%.16g" % v for v in values)


def rest(right, said, average):
    """Specificity, as recall of what a label is not."""
    return m.recall_score(1 - right, 1 - said, average=average, zero_division=0)


out, right = targets(120, 4, True)
said = (out > 0).astype(int)
for name, score in (("f1", m.f1_score), ("precision", m.precision_score), ("recall", m.recall_score), ("specificity", rest)):
    print(f'all_are(SL_LEARN_LABELS, "{name}", {score(right, said, average="macro"):.16g}, {each(score(right, said, average=None))});')
    if score is not rest:
        print(f'all_are(SL_LEARN_LABELS, "{name}_micro", {score(right, said, average="micro"):.16g}, NULL);')
for name, score in (("auc", m.roc_auc_score), ("average_precision", m.average_precision_score)):
    print(f'all_are(SL_LEARN_LABELS, "{name}", {score(right, out, average="macro"):.16g}, {each(score(right, out, average=None))});')
best = []
for k in range(4):
    precision, recall, at = m.precision_recall_curve(right[:, k], out[:, k])
    f1 = 2 * precision * recall / (precision + recall)
    top = max(i for i in range(len(at)) if f1[i] >= f1[:-1].max() - 1e-12)
    best.append(1 / (1 + np.exp(-at[top])))
print("thresholds:", ", ".join("%.16g" % b for b in best))
out, right = targets(120, 4, False)
for name, score in (("mae", m.mean_absolute_error), ("rmse", lambda *a, **b: m.mean_squared_error(*a, squared=False, **b)), ("r2", m.r2_score)):
    print(f'all_are(SL_LEARN_NUMBER, "{name}", {score(right, out, multioutput="uniform_average"):.16g}, {each(score(right, out, multioutput="raw_values"))});')
