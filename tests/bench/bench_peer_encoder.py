"""PyTorch's side of bench_peer.py's encoder: a post-norm layer of RoBERTa-base's sizes, without dropout behind the
activation, as RoBERTa has it. Rows of different lengths are padded, and their padding is masked."""
import time

FEATURES, HEADS, WIDE, DROPPED = 768, 12, 3072, 0.1

# Tokens of 32 sentences of CoLA (RoBERTa's tokenizer), 354 together: near the mean of its batches.
COLA = (7, 10, 10, 7, 10, 10, 13, 22, 19, 19, 8, 6, 8, 7, 10, 13, 8, 6, 10, 5, 7, 9, 13, 14, 21, 11, 8, 13, 9, 19, 11,
        11)

# name; tokens of each row; and by form of PyTorch: how far it pads, the target ratios with 1 and 2 threads
CASES = [
    ("encoder layer, 8 × 128 tokens", (128,) * 8, [("as it is", 128, (0.9, 0.7))]),
    ("encoder layer, 32 rows of CoLA", COLA, [("to the longest", max(COLA), (0.5, 0.5)), ("to 128", 128, (0.1, 0.1))]),
]


class Layer:
    """run() gives milliseconds of forward and backward; cpu: of the process on CPUs."""

    def __init__(self, lengths, padded, cpu):
        import torch
        self.clock = time.process_time if cpu else time.perf_counter
        torch.manual_seed(0)
        self.layer = torch.nn.TransformerEncoderLayer(FEATURES, HEADS, WIDE, DROPPED, "gelu", batch_first=True).train()
        self.layer.dropout = torch.nn.Identity()
        self.x = torch.randn(len(lengths), padded, FEATURES)
        self.dout = torch.randn(len(lengths), padded, FEATURES)
        behind = torch.arange(padded)[None, :] >= torch.tensor(lengths)[:, None]
        self.mask = behind if behind.any() else None

    def run(self):
        start = self.clock()
        for p in self.layer.parameters():
            p.grad = None
        self.layer(self.x.detach().requires_grad_(), src_key_padding_mask=self.mask).backward(self.dout)
        return (self.clock() - start) * 1e3
