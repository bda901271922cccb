"""Draws a valid config from a seed: a task, its network, and keys that may go together. Data are in write_data."""
import json
import math
import os
import random
import struct
import subprocess
import zlib

WORDS = "green red the a boxes of un fish water said".split()
PLAIN = ["none", "f16", "bf16", "quant:8", "quant:4,round=stochastic", "sortquant:4+2", "sortquant:5+1,round=stochastic", "terngrad",
         "qsgd:15", "normal:4", "topk:0.3", "randomk:0.5", "threshold:0.01", "adaptive:0.1", "quant:8|zstd", "topk:0.3|quant:8",
         "randomk:0.4|f16", "hadamard|normal:3", "topk:0.5,ef=true", "topk:0.4,ef=true|quant:8"]
GRIDS = ["lowrank:2", "lowrank:2,warm=true", "lowrank:1|quant:6", "downsample:2"]
FEATURES = ["a", "b", "colour"]


def rows(seed, n):
    """Rows of a table whose targets depend on its features."""
    draw = random.Random(seed)
    for i in range(n):
        a, b, colour = draw.gauss(0, 1), draw.gauss(0, 1), draw.choice(["red", "green"])
        yield {"id": f"row-{seed}-{i}", "a": f"{a:.3f}", "b": f"{b:.3f}", "colour": colour, "kind": f"k{(a > 0) + (a + b > 1)}",
               "height": f"{2 * a + b:.3f}", "price": f"{1100 + 90 * b - 40 * a * a:.2f}", "cough": int(a > 0.3), "fever": int(b > 0.2),
               "text": " ".join(draw.choice(WORDS) for _ in range(draw.randint(1, 9)))}


def write_png(path, size, pixels, channels):
    raw = b"".join(b"\0" + bytes(pixels[y * size * channels:(y + 1) * size * channels]) for y in range(size))
    chunk = lambda name, data: struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    head = struct.pack(">IIBBBBB", size, size, 8, 0 if channels == 1 else 2, 0, 0, 0)
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b""))


def write_pictures(folder, part, n):
    """Pictures of three classes, and the same pictures with masks of two classes and pixels that do not count."""
    draw = random.Random(part)
    for i in range(n):
        kind, at, pixels, mask = i % 3, draw.randint(1, 4), [], []
        for y in range(8):
            for x in range(8):
                inside = at <= x < at + 3 and at <= y < at + 3
                pixels += [min(255, draw.randint(0, 90) + (150 if inside and c == kind else 0)) for c in range(3)]
                mask.append(255 if i % 4 == 1 and y > 1 else int(inside))
        for place in (f"photos/{part}/k{kind}", f"scans/{part}", f"scans/masks/{part}"):
            os.makedirs(f"{folder}/{place}", exist_ok=True)
        write_png(f"{folder}/photos/{part}/k{kind}/{i}.png", 8, pixels, 3)
        write_png(f"{folder}/scans/{part}/{i}.png", 8, pixels, 3)
        write_png(f"{folder}/scans/masks/{part}/{i}.png", 8, mask, 1)


def write_network(path, classes=2):
    """A network with a class for each pixel: five convolutions."""
    params, nodes, values, draw, x, wide = [], [], 2, random.Random(5), 0, 3
    for i, out in enumerate([4, 4, 5, 4, classes]):
        names = [(f"conv{i}.weight", [out, 3, 3, wide]), (f"conv{i}.bias", [out])]
        nodes.append(f"node conv{i} conv2d %{x} " + " ".join(f"&{len(params) + k}" for k in range(2)) + " pad=1")
        params, x, wide, values = params + names, values, out, values + 1
        if i < 4:
            nodes.append(f"node act{i} act %{x}")
            x, values = values, values + 1
    text = ["graph 1", "in image f32 R[8,8,3]", "in label i32 R[8,8]",
            *(f"param {name} [{','.join(map(str, dims))}] zero" for name, dims in params), *nodes,
            f"node loss xent %{x} %1", f"out loss %{values}", ""]
    header, data = {"__metadata__": {"split.graph": "\n".join(text), "split.network": "{}"}}, b""
    for name, dims in params:
        n = math.prod(dims)
        header[name] = {"dtype": "F32", "shape": dims, "data_offsets": [len(data), len(data) + 4 * n]}
        data += struct.pack(f"<{n}f", *(draw.uniform(-0.4, 0.4) for _ in range(n)))
    said = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(said)) + said + data)


def write_data(folder, tools):
    for part, n in (("train", 44), ("val", 17)):
        table = list(rows(part, n))
        for name, columns in (("table", ["id", *FEATURES, "kind", "height", "price", "cough", "fever"]), ("site-A", ["id", *FEATURES]),
                              ("site-B", ["id", "kind", "height", "price", "cough", "fever"]), ("texts", ["text", "kind", "height"]), ("lines", ["text"])):
            os.makedirs(f"{folder}/{name}", exist_ok=True)
            with open(f"{folder}/{name}/{part}.csv", "w") as f:
                f.writelines(",".join(map(str, line)) + "\n" for line in [columns, *([r[c] for c in columns] for r in table)])
        write_pictures(folder, part, n)
    write_network(f"{folder}/pixels.safetensors")
    os.makedirs(f"{folder}/tokenizer")
    subprocess.run([f"{tools}/make_text", f"{folder}/tokenizer"], check=True, stdout=subprocess.DEVNULL)
    both = {"vocab_size": 700, "hidden_size": 12, "intermediate_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2,
            "initializer_range": 0.1}
    for name, said in (("llama", {"architectures": ["LlamaForCausalLM"], "num_key_value_heads": 1, "max_position_embeddings": 24,
                                  "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": True, "eos_token_id": 2}),
                       ("roberta", {"architectures": ["RobertaForMaskedLM"], "max_position_embeddings": 26, "type_vocab_size": 1,
                                    "layer_norm_eps": 1e-5, "hidden_act": "gelu", "pad_token_id": 1, "hidden_dropout_prob": 0.1,
                                    "attention_probs_dropout_prob": 0.1})):
        os.makedirs(f"{folder}/{name}")
        with open(f"{folder}/{name}/config.json", "w") as f:
            json.dump({"model_type": name, **both, **said}, f)


TASKS = ["classes", "numbers", "labels", "pictures", "masks", "texts", "text-numbers", "masked", "next", "vertical", "group"]


def table_task(c, draw, task):
    """Keys of a table: classes, numbers or labels."""
    all_columns = ["kind", "height", "price", "cough", "fever"]
    label = {"classes": ["kind"], "numbers": draw.choice([["price"], ["height", "price"]]), "labels": ["cough", "fever"]}[task]
    c.update({"model.name": "mlp", "model.features": 4, "model.classes": 3 if task == "classes" else len(label), "model.task": task,
              "model.dropout": draw.choice([0, 0.2]), "data.kind": "csv", "data.label": label,
              "data.ignore": ["id", *(x for x in all_columns if x not in label)]})
    if task == "numbers":
        c["data.scale_label"] = len(label) == 1 or draw.random() < 0.7
        c["data.label"] = label if c["data.scale_label"] else ["height"]
        c["data.ignore"] = ["id", *(x for x in all_columns if x not in c["data.label"])]
        c["model.classes"] = len(c["data.label"])
        c["train.loss"] = draw.choice(["mse", "l1", "huber"])


def base(draw, task, data):
    c = {"train.seed": draw.randint(0, 99), "train.batch": draw.choice([4, 6, 8, 12]), "train.chunks": draw.randint(1, 4), "threads": 1,
         "train.epochs": draw.randint(1, 3), "train.optimizer.lr": 0.01, "link.on_server_lost": "exit", "train.checkpoint_every": 1}
    if task in ("classes", "numbers", "labels", "vertical", "group"):
        kind = task if task in ("classes", "numbers", "labels") else draw.choice(["classes", "numbers", "labels"])
        table_task(c, draw, kind)
        c["data.dir"] = f"{data}/table"
    if task == "pictures":
        c.update({"model.name": draw.choice(["mobilenet_v2", "resnet18"]), "model.width": 0.05, "model.image": 8, "model.classes": 3,
                  "data.kind": "images", "data.dir": f"{data}/photos", "train.epochs": draw.randint(1, 2)})
    if task == "masks":
        c.update({"model.network": f"{data}/pixels.safetensors", "model.task": "pixels", "data.kind": "images", "data.dir": f"{data}/scans",
                  "data.label": ["back", "square"], "head_end": draw.choice(["act0", "act1"]), "tail_begin": draw.choice(["conv3", "conv4"]),
                  "data.transforms": ["Resize((8, 8))"], "data.test_transforms": ["Resize((8, 8))"],
                  "train.loss": draw.choice(["labels", "dice", "dice_ce", "foreground_dice", "foreground_dice_ce"])})
    if task in ("texts", "text-numbers", "masked", "next"):
        c.update({"model.huggingface": f"{data}/llama" if task == "next" else f"{data}/roberta", "model.tokens": 20, "data.kind": "text",
                  "data.dir": f"{data}/lines", "data.tokenizer": f"{data}/tokenizer", "data.token_cache": False,
                  "train.epochs": draw.randint(1, 2), "model.head": {"masked": "masked_lm", "next": "causal_lm"}.get(task, "classifier"),
                  "data.pad": draw.choice(["none", "longest", "max"])})
        if task in ("masked", "next"):
            c["partition"] = draw.choice(["1:-2", "2:-2"] if task == "next" else ["1:-2", "1:-3"])
    if task in ("texts", "text-numbers"):
        c.update({"data.dir": f"{data}/texts", "data.label": "kind" if task == "texts" else ["height"],
                  "model.classes": 3 if task == "texts" else 1})
    if task == "text-numbers":
        c.update({"model.task": "numbers", "data.scale_label": draw.random() < 0.6})
    return c


def learns(c):
    return c.get("model.task", "next" if c.get("model.head") in ("causal_lm", "masked_lm") else "classes")


def more_keys(c, draw, task):
    """Keys that may go with any task, each now and then. A config that is refused is drawn anew."""
    now = lambda share: draw.random() < share
    codecs = PLAIN + (GRIDS if task in ("pictures", "masks", "texts", "masked", "next") else [])
    if now(0.7):
        for way in ("head_act", "mid_act", "mid_grad", "head_grad"):
            if now(0.7):
                c[f"codec.{way}"] = draw.choice(codecs)
    c["train.optimizer.kind"] = draw.choice(["sgd", "adam", "adamw"])
    c["train.optimizer.weight_decay"] = draw.choice([0, 0.01])
    if c["train.optimizer.kind"] == "sgd":
        c["train.optimizer.momentum"] = draw.choice([0, 0.9])
        c["train.optimizer.nesterov"] = c["train.optimizer.momentum"] > 0 and now(0.5)
    choices = {
        "train.accumulate": (0.25 * (task != "group"), [2, 3]), "train.ema": (0.2 * (task != "group"), [0.5, 0.9]), "train.clip_norm": (0.25, [0.05, 1]), "train.drop_last": (0.2, [True]),
        "train.groups": (0.25, [["*.bias weight_decay=0"], ["*weight lr=0.5 weight_decay=0.1"], ["*.bias lr=0"]]),
        "train.eval_every": (0.2, [0, 2]), "train.keep_best": (0.3, [True]), "train.chunk_loss": (0.1, ["sum"]), "train.chunk_sums": (0.1, [True]),
        "recompute": (0.15, ["on"]), "link.part_bytes": (0.2, [4096]), "link.window_bytes": (0.1, [1 << 20]), "data.threads": (0.2, [2]),
        "data.train_limit": (0.2, [13, 30]), "train.max_steps": (0.15, [3, 5]), "data.group_by_length": (0.2 * (task in ("texts", "next")), [True]),
        "train.label_smoothing": (0.15 * (learns(c) == "classes"), [0.1]), "train.mixup": (0.15 * (task in ("classes", "pictures")), [0.3]),
        "train.class_weights": (0.2 * (learns(c) in ("classes", "pixels") and "dice" not in c.get("train.loss", "").split("_")[-1:]), ["balanced", [0.5, 2, 1][:2 if learns(c) == "pixels" else 3]]),
        "data.sampling": (0.15 * (learns(c) == "classes"), ["balanced"]), "train.ends_precision": (0.05, ["bf16_factors"]),
        "train.precision": (0.05, ["bf16_factors"]), "tail_tokens": (0.1 * (task == "next"), ["loss"]),
        "lora.rank": (0.2 * ("model.huggingface" in c), [2]),
    }
    for key, (share, values) in choices.items():
        if now(share):
            c[key] = draw.choice(values)
    if now(0.5):
        kind = draw.choice(["cosine", "polynomial", "step", "points", "exponential"])
        c["train.schedule.kind"] = kind
        c.update({"step": {"train.schedule.milestones": [1]}, "points": {"train.schedule.points": ["0:0.005", "1:0.02", "4:0.001"], "train.optimizer.lr": None},
                  "exponential": {"train.schedule.end_lr": 1e-4}}.get(kind, {"train.schedule.warmup_epochs": draw.choice([0, 0.5])}))
        if kind not in ("cosine", "polynomial"):
            c["train.schedule.by"] = draw.choice(["step", "epoch"])
    if now(0.25):
        c["train.freeze"] = {"mlp": [["layer1.*"], ["layer2.*"]], "pixels": [["conv0.*"], ["conv2.*"]]}.get(
            c.get("model.name", learns(c)), [["*.bias"], ["*embed*"], ["features.0.*"]])[0 if now(0.5) else 1]
    if now(0.2) and task not in ("vertical",):
        c[draw.choice(["insert.head", "insert.tail"])] = draw.choice(["linear:3", "linear:4", "conv:3,k=1,s=1", "decaylinear:rate=0.5,every=2,times=1"])
    if task == "pictures" and now(0.25):
        last = {"epochs": 1, "image": 8, "batch": draw.choice([6, 10]), "chunks": draw.choice([1, 2])}
        c["train.epochs"], c["train.phases"] = None, [{"epochs": 1, "image": draw.choice([8, 16]), "lr": 0.5}, last]
    if task not in ("masks", "masked", "next") and now(0.3):
        c["partition"] = draw.choice(["1:-1"] if c.get("model.name") == "mlp" else ["1:-1", "2:-1", "1:-2"])
    metrics = {"classes": ["f1", "auc"], "numbers": ["rmse", "mae", "spearman"], "labels": ["f1", "average_precision"], "pixels": ["mean_iou"]}
    if learns(c) in metrics:
        c["train.metrics"] = metrics[learns(c)]
    if c.get("train.keep_best") and c.get("train.metrics") and now(0.5):
        c["train.best_metric"] = draw.choice(c["train.metrics"])


def draw_config(draw, data, task=None):
    """(task, keys) of a config. A given task has no keys beside its own, and one codec that draws."""
    plain, task = task is not None, task or draw.choice(TASKS)
    c = base(draw, task, data)
    if plain:
        c.update({"train.epochs": 3, "codec.head_act": "qsgd:63", "train.optimizer.kind": "adam", "train.keep_best": task not in ("vertical", "group")})
        if task == "vertical":
            c.update({"model.task": "numbers", "model.classes": 1, "data.label": ["price"], "data.scale_label": True,
                      "data.ignore": ["id", "kind", "height", "cough", "fever"]})
        if learns(c) in ("numbers", "labels"):
            c["train.metrics"] = ["rmse" if learns(c) == "numbers" else "f1"]
    else:
        more_keys(c, draw, task)
    return task, {k: v for k, v in c.items() if v is not None}


def nested(c):
    out = {}
    for key, value in c.items():
        at = out
        *way, last = key.split(".")
        for name in way:
            at = at.setdefault(name, {})
        at[last] = value
    return out
