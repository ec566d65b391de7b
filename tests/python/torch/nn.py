"""Modules of the stand-in: a tree with names, forward() with hooks around it."""


class _Handle:
    def __init__(self, hooks, hook):
        self.hooks, self.hook = hooks, hook

    def remove(self):
        self.hooks.remove(self.hook)


class Module:
    def __init__(self):
        self.before, self.after = [], []

    def register_forward_pre_hook(self, hook, with_kwargs=False):
        self.before.append((hook, with_kwargs))
        return _Handle(self.before, self.before[-1])

    def register_forward_hook(self, hook, with_kwargs=False):
        self.after.append((hook, with_kwargs))
        return _Handle(self.after, self.after[-1])

    def named_modules(self, prefix=""):
        yield prefix, self
        for name, child in vars(self).items():
            if isinstance(child, Module):
                yield from child.named_modules(f"{prefix}.{name}" if prefix else name)

    def __call__(self, *args, **kwargs):
        for hook, named in list(self.before):
            hook(self, args, kwargs) if named else hook(self, args)
        output = self.forward(*args, **kwargs)
        for hook, named in list(self.after):
            hook(self, args, kwargs, output) if named else hook(self, args, output)
        return output


class ModuleList(Module):
    def __init__(self, modules):
        super().__init__()
        for i, module in enumerate(modules):
            setattr(self, str(i), module)

    def __iter__(self):
        return iter([m for m in vars(self).values() if isinstance(m, Module)])
