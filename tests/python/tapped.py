"""tapped.py: assay_taps.py over a stand-in module tree, for tests/test_taps_script.c.

    tapped.py CASE OUT    ends 0, or 1 with the tool's own message on stderr

The tree has the names of transformers ("plain") or returns pairs as vLLM does ("vllm"): two layers,
the second with experts; four tokens, two heads of three. Element i of a tensor is 100 k + i where k
counts the calls of leaves, so a tap's values tell which call it is."""

import sys

import assay_taps
import torch
from torch.nn import Module, ModuleList

T, H, Q, E, K, V = 4, 4, 6, 8, 2, 10


class World:
    rank, ranks, calls, twice, skip, raises = 0, 1, 0, False, False, False


def ramp(*shape):
    World.calls += 1
    n = 1
    for size in shape:
        n *= size
    return torch.Tensor([100.0 * World.calls + i for i in range(n)], shape)


class Leaf(Module):
    def __init__(self, *shape, cut=False, pair=False):
        super().__init__()
        self.shape, self.cut, self.pair = shape, cut, pair

    def forward(self, *inputs):
        x = ramp(*self.shape)
        if self.cut and World.ranks > 1:
            n = self.shape[-1] // World.ranks
            lines = [x.values[i:i + self.shape[-1]] for i in range(0, x.numel(), self.shape[-1])]
            x = torch.Tensor([v for line in lines for v in line[World.rank * n:][:n]],
                             (*self.shape[:-1], n))
        return (x, None) if self.pair else x


class Gate(Module):
    def forward(self, x):
        logits = ramp(T, E)
        ids = torch.Tensor([5, 2, 7, 0, 1, 6, 4, 3], (T, K), torch.int64)
        return logits, torch.Tensor([0.5, 0.25] * T, (T, K)), ids


class Experts(Module):
    def forward(self, x, ids, weights):
        return ramp(T, H)


class Dense(Module):
    def forward(self, x):
        return ramp(1, T, H)


class Moe(Module):
    def __init__(self):
        super().__init__()
        self.gate, self.experts, self.shared_experts = Gate(), Experts(), Dense()

    def forward(self, x):
        _, weights, ids = self.gate(x)
        self.experts(x, ids, weights)
        self.shared_experts(x)
        return ramp(1, T, H)


class Attention(Module):
    def __init__(self, pair):
        super().__init__()
        self.q_b_proj = Leaf(1, T, Q, cut=True, pair=pair)
        self.kv_a_layernorm = Leaf(1, T, 2)
        self.o_proj = Leaf(1, T, H, pair=pair)
        self.core = Leaf(1, T, Q, cut=True)

    def forward(self, x):
        self.q_b_proj(x)
        self.kv_a_layernorm(x)
        if World.twice:
            self.o_proj(self.core(x))
        return self.o_proj(self.core(x))


class Layer(Module):
    def __init__(self, moe, pair):
        super().__init__()
        self.pair = pair
        self.input_layernorm = Leaf(1, T, H)
        self.self_attn = Attention(pair)
        self.post_attention_layernorm = Leaf(1, T, H)
        self.mlp = Moe() if moe else Dense()

    def forward(self, x):
        self.self_attn(self.input_layernorm(x))
        if World.raises:
            raise ValueError("out of memory")
        if not World.skip:
            x = self.post_attention_layernorm(x)
        y = self.mlp(x)
        return (y, ramp(1, T, H)) if self.pair else y


class Model(Module):
    def __init__(self, pair):
        super().__init__()
        self.embed_tokens = Leaf(1, T, H)
        self.layers = ModuleList([Layer(False, pair), Layer(True, pair)])
        self.norm = Leaf(1, T, H)

    def forward(self, ids):
        x = self.embed_tokens(ids)
        for layer in self.layers:
            x = layer(x)
            x = x[0] if isinstance(x, tuple) else x
        return self.norm(x)


class Whole(Module):
    def __init__(self, pair=False):
        super().__init__()
        self.model = Model(pair)
        self.lm_head = Leaf(1, T, V)

    def forward(self, input_ids):
        self.model(input_ids)
        return self.lm_head(None)


IDS = torch.Tensor([3, 1, 4, 1], (1, T), torch.int64)


def run(out, passes=1, pair=False):
    World.calls = 0
    model = Whole(pair)
    with assay_taps.Taps(model, out, World.rank, World.ranks) as taps:
        for _ in range(passes):
            model(input_ids=IDS)
    assert all(not m.before and not m.after for _, m in model.named_modules()), "hooks stay behind"
    return taps


def case(name, out):
    if name == "ranks":
        for World.rank in range(2):
            World.ranks = 2
            run(out)
    elif name == "raises":
        World.raises = True
        model = Whole()
        taps = assay_taps.Taps(model, out)
        try:
            model(input_ids=IDS)
        except ValueError:
            taps.close()
    elif name == "none":
        assay_taps.Taps(Whole(), out).close()
    elif name == "foreign":
        assay_taps.Taps(Leaf(1), out)
    else:
        World.twice, World.skip = name == "twice", name == "missing"
        run(out, 2 if name == "passes" else 1, name == "vllm")


try:
    case(sys.argv[1], sys.argv[2])
except assay_taps.TapsError as error:
    sys.exit(str(error))
