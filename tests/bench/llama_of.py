"""usage: llama_of.py FOLDER BLOCKS HIDDEN WORDS
Writes config.json and model.safetensors of a Llama with random weights in bfloat16 to FOLDER. 16 2048 128256 gives Llama-3.2-1B's shapes."""
import json, os, struct, sys

folder = sys.argv[1]
blocks, hidden, words = map(int, sys.argv[2:])
wide, heads, kv = 4 * hidden, hidden // 64, hidden // 256
json.dump({"model_type": "llama", "vocab_size": words, "hidden_size": hidden, "intermediate_size": wide, "num_hidden_layers": blocks,
           "num_attention_heads": heads, "num_key_value_heads": kv, "head_dim": 64, "max_position_embeddings": 2048, "rms_norm_eps": 1e-5,
           "rope_theta": 500000.0, "tie_word_embeddings": True, "eos_token_id": 2}, open(folder + "/config.json", "w"))
shapes = {"model.embed_tokens.weight": [words, hidden], "model.norm.weight": [hidden]}
for i in range(blocks):
    shapes |= {f"model.layers.{i}.{name}.weight": shape for name, shape in {
        "input_layernorm": [hidden], "post_attention_layernorm": [hidden], "self_attn.q_proj": [hidden, hidden], "self_attn.o_proj": [hidden, hidden],
        "self_attn.k_proj": [kv * 64, hidden], "self_attn.v_proj": [kv * 64, hidden], "mlp.gate_proj": [wide, hidden], "mlp.up_proj": [wide, hidden],
        "mlp.down_proj": [hidden, wide]}.items()}
header, at = {}, 0
for name in sorted(shapes):
    size = 2
    for n in shapes[name]: size *= n
    header[name] = {"dtype": "BF16", "shape": shapes[name], "data_offsets": [at, at + size]}
    at += size
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
block = bytearray(os.urandom(1 << 24))
for i in range(1, len(block), 2):
    block[i] = 0x3c | (block[i] & 0x80) # about 0.01 to 0.03, of either sign
with open(folder + "/model.safetensors", "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text)
    while at > 0:
        f.write(block[:min(at, len(block))])
        at -= len(block)
