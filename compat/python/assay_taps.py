"""assay_taps.py: the taps of a running model, written as a dump that `assay diff` reads.

    import assay_taps
    with assay_taps.Taps(model, "dump"):
        model(input_ids)

    assay diff dump --model MODEL --profile hf

One file without dependencies but torch. It hooks the modules of a tree whose names are those of
transformers' or vLLM's DeepSeek-V3 and Kimi K2 (model.layers.3.self_attn.o_proj, below any prefix)
and writes `dump/step0.rank0.safetensors`, a file a forward pass and rank; names, shapes and order of
the taps are those of core/tap.h. A tap goes to the disk as it comes: no more than one is held.

The proof that nothing was lost: each expected tap must come exactly once a forward pass. The counts
are in the file (assay.counts; assay.order names what was expected); what was missing or came twice
is an error of close(), and a problem of `assay inspect` and `assay diff`. Hooks do not fire inside
CUDA graphs and compiled models: run eagerly (enforce_eager), or that is what the error says.

Tensor parallelism: each rank runs this with its own rank; rank and ranks come from torch.distributed
where it is initialised, or from the caller. q and attn_core (the heads) are parts, told so in the
file (assay.shards), and joined by the reader; everything else must be the same on all ranks, bit by
bit. What a rank holds as a part of a sum (routed, shared) and logits, which one rank alone has, are
left out where there are several ranks.

What it does not see: k_rope (no module gives it), tokens that are padding, what a fused kernel does
without its module. A layer that returns (hidden states, residual), as vLLM's do, has their sum as
its output.
"""

import ctypes
import json
import os
import re

import torch

VERSION = "1"


class TapsError(RuntimeError):
    """The taps of a forward pass are not what they must be."""


# ---- which module gives which tap ----

# Path of a module in its layer: [(tap, what is taken)]. "" is the layer itself.
LAYER = {
    "input_layernorm": [("attn_norm", "first")],
    "self_attn.q_proj": [("q", "first")],
    "self_attn.q_b_proj": [("q", "first")],
    "self_attn.kv_a_layernorm": [("kv_latent", "first")],
    "self_attn.o_proj": [("attn_core", "input"), ("attn", "first")],
    "post_attention_layernorm": [("mlp_norm", "first")],
    "mlp.gate": [(None, "gate")],
    "mlp.experts": [("routed", "last")],
    "mlp.shared_experts": [("shared", "first")],
    "mlp": [("mlp", "first")],
    "": [("output", "sum")],
}
WHOLE = {
    "embed_tokens": [("embed", "first")],
    "norm": [("final_norm", "first")],
    "lm_head": [("logits", "first")],
}
GATE = ["router_logits", "experts", "expert_weights"]
# Order of execution: core/tap.h.
ORDER = ["attn_norm", "q", "kv_latent", "attn_core", "attn", "mlp_norm", *GATE, "routed", "shared",
         "mlp", "output"]
CUT = {"q": 1, "attn_core": 1}  # the axis of which a rank holds a part
NOT_WHOLE = {"routed", "shared", "logits"}  # on one rank of several

DTYPES = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16",
          "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8", "uint8": "U8"}


def _rank_of(name):
    """Place in the order of execution of a tap's name."""
    ends = {"embed": -1, "final_norm": 1 << 40, "logits": (1 << 40) + 1}
    if name in ends:
        return ends[name]
    _, layer, tap = name.split(".")
    return int(layer) * len(ORDER) + ORDER.index(tap)


def _tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (tuple, list)):
        return [t for v in value for t in _tensors(v)]
    return []


def _take(what, args, kwargs, output, tap):
    """What a hook of a module takes as `tap`: {name of tap: tensor}."""
    given = _tensors(output)
    if what == "input":
        given = _tensors(list(args) + list(kwargs.values()))
    if not given:
        return {}
    if what == "gate":
        return _gate(given)
    if what == "sum" and len(given) > 1 and given[0].shape == given[1].shape:
        return {tap: given[0] + given[1]}
    return {tap: given[-1] if what == "last" else given[0]}


def _gate(given):
    """Logits alone, or with the chosen experts and their weights, which are put in ascending id."""
    chosen = [t for t in given if not t.is_floating_point()]
    width = chosen[0].shape[-1] if chosen else -1
    weights = [t for t in given if t.is_floating_point() and t.shape[-1] == width]
    logits = [t for t in given if t.is_floating_point() and t.shape[-1] != width]
    taps = {"router_logits": logits[0]} if logits else {}
    if chosen and weights:
        ids, order = chosen[0].sort(dim=-1)
        taps["experts"] = ids.to(torch.int32)
        taps["expert_weights"] = weights[0].gather(-1, order)
    return taps


# ---- the file ----


class _File:
    """A safetensors file whose header is written last, into room that was left for it."""

    def __init__(self, path, room):
        self.path, self.room = path, room
        self.entries, self.bytes = {}, 0
        self.file = open(path + ".tmp", "wb")
        self.file.seek(8 + room)

    def add(self, name, tensor):
        kind = str(tensor.dtype).split(".")[-1]
        if kind not in DTYPES:
            raise TapsError(f"assay_taps: {name}: found a tensor of {kind}, wanted one of "
                            f"{', '.join(DTYPES)}")
        tensor = tensor.detach().contiguous().cpu()
        size = tensor.numel() * tensor.element_size()
        if size:
            self.file.write((ctypes.c_char * size).from_address(tensor.data_ptr()))
        self.entries[name] = {"dtype": DTYPES[kind], "shape": list(tensor.shape),
                              "data_offsets": [self.bytes, self.bytes + size]}
        self.bytes += size

    def close(self, meta):
        header = json.dumps({"__metadata__": meta, **self.entries}).encode()
        if len(header) > self.room:
            raise TapsError(f"assay_taps: {self.path}: found a header of {len(header)} bytes, "
                            f"wanted at most {self.room}")
        self.file.seek(0)
        self.file.write(self.room.to_bytes(8, "little") + header.ljust(self.room))
        self.file.close()
        os.replace(self.path + ".tmp", self.path)


# ---- the hooks ----


def _distributed():
    d = getattr(torch, "distributed", None)
    if d is not None and d.is_available() and d.is_initialized():
        return d.get_rank(), d.get_world_size()
    return 0, 1


class Taps:
    """Hooks of a model; each forward pass of it writes a file. out: a folder, made here. rank,
    ranks: of the tensor-parallel group; default: of torch.distributed, else 0 of 1. engine: what
    the report calls it."""

    def __init__(self, model, out, rank=None, ranks=None, engine=None):
        known = _distributed()
        self.rank = known[0] if rank is None else rank
        self.ranks = known[1] if ranks is None else ranks
        self.engine = engine or f"{type(model).__module__.split('.')[0]}, torch {torch.__version__}"
        self.out, self.step, self.file = out, 0, None
        self.problems, self.handles = [], []
        self.gates, self.gate_taps = [], None  # layers with a gate; what the first one gave
        self.expected = []
        os.makedirs(out, exist_ok=True)
        self._attach(model)

    def _attach(self, model):
        for path, module in model.named_modules():
            layer, inner = self._place(path)
            points = WHOLE.get(inner, []) if layer is None else LAYER.get(inner, [])
            if not points or type(module).__name__ == "ModuleList":
                continue
            names = [(self._name(layer, tap), what) for tap, what in points
                     if not (self.ranks > 1 and tap in NOT_WHOLE)]
            if not names:
                continue
            self.expected += [name for name, what in names if what != "gate"]
            if points[0][1] == "gate":
                self.gates.append(layer)
            self.handles.append(module.register_forward_hook(self._hook(layer, names),
                                                             with_kwargs=True))
        twice = sorted({n for n in self.expected if self.expected.count(n) > 1})
        if not self.expected or twice:
            self.remove()
            raise TapsError("assay_taps: the module tree: found " + (
                f"two modules for {twice[0]}" if twice else "none of the names that are known") +
                ", wanted one model with model.layers.0.self_attn.o_proj and the like")
        self.handles.append(model.register_forward_pre_hook(self._begin, with_kwargs=True))
        self.handles.append(model.register_forward_hook(self._end))

    @staticmethod
    def _place(path):
        """(layer, path in it), or (None, last name)."""
        match = re.fullmatch(r"(?:.*\.)?layers\.(\d+)(?:\.(.*))?", path)
        if match:
            return int(match.group(1)), match.group(2) or ""
        return None, path.split(".")[-1]

    @staticmethod
    def _name(layer, tap):
        return tap if layer is None else f"layers.{layer}.{tap}"

    def _hook(self, layer, names):
        def hook(_module, args, kwargs, output):
            for name, what in names:
                for tap, tensor in _take(what, args, kwargs, output, name).items():
                    self._write(self._name(layer, tap) if what == "gate" else tap, tensor)
            if names[0][1] == "gate" and self.file:
                self._gate_seen(layer)
        return hook

    def _gate_seen(self, layer):
        """The first gate says what every gate owes."""
        given = [t for t in GATE if self._name(layer, t) in self.counts]
        if self.gate_taps is None:
            self.gate_taps = given

    # ---- a forward pass ----

    def _begin(self, _module, args, kwargs):
        if self.file:
            self._finish()  # a pass that raised: what it lacks is missing
        ids = kwargs.get("input_ids")
        if ids is None:
            ids = next((t for t in _tensors(list(args)) if not t.is_floating_point()), None)
        self.tokens, self.lengths = [], []
        if ids is not None:
            self.tokens = ids.reshape(-1).tolist()
            rows = ids.shape[0] if len(ids.shape) > 1 else 1
            self.lengths = [len(self.tokens) // rows] * rows if rows else []
        self.counts = {}
        room = 4096 + 400 * (len(self.expected) + 3 * len(self.gates)) + 24 * len(self.tokens)
        name = f"step{self.step}.rank{self.rank}.safetensors"
        self.file = _File(os.path.join(self.out, name), room // 64 * 64 + 56)

    def _write(self, name, tensor):
        """The first of this name; others are counted only."""
        if not self.file:
            return
        self.counts[name] = self.counts.get(name, 0) + 1
        if self.counts[name] == 1:
            width = tensor.shape[-1] if len(tensor.shape) > 1 else 1
            self.file.add(name, self._rows(name, tensor, width))

    def _rows(self, name, tensor, width):
        """[batch, sequence, width] or [batch, sequence, heads, width of one] as a row a token."""
        rows = len(self.tokens)
        if rows and tensor.numel() % rows == 0 and len(tensor.shape) > 2:
            return tensor.reshape(rows, tensor.numel() // rows)
        if len(tensor.shape) == 2:
            return tensor
        return tensor.reshape(tensor.numel() // width if width else 0, width)

    def _end(self, _module, _args, _output):
        if self.file:
            self._finish()

    def _finish(self):
        owed = self.expected + [self._name(layer, t) for layer in self.gates
                                for t in self.gate_taps or GATE[:1]]
        order = sorted(set(owed) | set(self.counts), key=_rank_of)
        counts = {name: self.counts.get(name, 0) for name in order}
        bad = [f"{name} {n} times" for name, n in counts.items() if n != 1]
        if bad:
            self.problems.append(f"forward pass {self.step}: {', '.join(bad[:8])}" +
                                 (f" and {len(bad) - 8} more" if len(bad) > 8 else ""))
        meta = {"assay.version": VERSION, "assay.engine": self.engine,
                "assay.order": json.dumps(order), "assay.counts": json.dumps(counts),
                "assay.rank": str(self.rank), "assay.ranks": str(self.ranks),
                "assay.step": str(self.step)}
        if self.tokens:
            meta["assay.tokens"] = json.dumps(self.tokens)
        if len(self.lengths) > 1:
            meta["assay.lengths"] = json.dumps(self.lengths)
        if self.ranks > 1:
            cut = {name: CUT[name.split(".")[-1]] for name in self.file.entries
                   if name.split(".")[-1] in CUT}
            meta["assay.shards"] = json.dumps(cut)
        file, self.file = self.file, None
        file.close(meta)
        self.step += 1

    # ---- the end ----

    def remove(self):
        for handle in self.handles:
            handle.remove()
        self.handles = []

    def close(self):
        """Takes the hooks away. TapsError: a pass whose taps did not come once each, or no pass."""
        if self.file:
            self._finish()
        self.remove()
        if self.step == 0:
            self.problems.append("no forward pass ran through the hooks")
        if self.problems:
            raise TapsError("assay_taps: count taps: found " + "; ".join(self.problems) +
                            ", wanted each once (eager mode, one model, no tap inside a graph)")

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind is None:
            self.close()
        else:
            self.remove()
            if self.file:
                self._finish()
        return False
