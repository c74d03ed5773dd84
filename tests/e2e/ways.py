"""ways.py: Python that is called in one way after another, each from the one before, and then sleeps: for test_stack."""
import functools
import sys
import time


def leaf():
    time.sleep(1000)


class Meta(type):
    def __call__(cls, *a, **k):
        return type.__call__(cls, *a, **k)


class A(metaclass=Meta):
    def __init__(self, f):
        self.f = f
    def __enter__(self):
        self.f()
        return self
    def __exit__(self, *a):
        return None
    def __getattr__(self, n):
        return self.f()
    def __getitem__(self, n):
        return self.f()
    def __setitem__(self, n, v):
        return self.f()
    def __delitem__(self, n):
        return self.f()
    def __contains__(self, n):
        return self.f()
    def __iter__(self):
        self.f()
        return iter([])
    def __len__(self):
        return self.f() or 1
    def __bool__(self):
        return bool(self.f())
    def __eq__(self, o):
        return self.f()
    def __lt__(self, o):
        return self.f()
    def __add__(self, o):
        return self.f()
    def __iadd__(self, o):
        return self.f()
    def __neg__(self):
        return self.f()
    def __hash__(self):
        return self.f() or 1
    def __call__(self, *a, **k):
        return self.f()
    def __format__(self, s):
        self.f()
        return "x"
    def __set_name__(self, o, n):
        self.f()
    def __instancecheck__(self, o):
        return self.f()


def chain(fs):
    if not fs:
        return leaf()
    return fs[0](lambda: chain(fs[1:]))


def w(f):
    with A(f):
        pass


def it(f):
    for x in A(f):
        pass


def gen(f):
    def g():
        yield f()
    return next(g())


def gen2(f):
    def g():
        yield from h()
    def h():
        yield f()
    return list(g())


def cls(f):
    class B:
        x = A(f)


def star(f):
    return A(f)(*[1], **{"a":2})


def unpack(f):
    a, = A(f)


def dele(f):
    a = A(f)
    del a[1]


def aug(f):
    a = A(f)
    a += 1


def fmt(f):
    return f"{A(f)}"


def hsh(f):
    return {A(f): 1}


def comp(f):
    return [f() for _ in [1]]


def lam(f):
    return list(map(lambda _: f(), [1]))


def evl(f):
    return eval("f()", {"f": f})


def exc(f):
    try:
        raise ValueError
    except A2(f):
        pass
    except ValueError:
        return f()


def A2(f):
    return KeyError


def fin(f):
    try:
        pass
    finally:
        f()


def coro(f):
    async def c():
        return f()
    async def d():
        return await c()
    try:
        d().send(None)
    except StopIteration:
        pass


def prop(f):
    class P:
        @property
        def x(self):
            return f()
    return P().x


def imp(f):
    class F:
        @staticmethod
        def find_spec(n, p=None, t=None):
            if n == f"zzz{id(f)}":
                f()
            return None
    sys.meta_path.insert(0, F)
    exec(f"import zzz{id(f)}")


def ise(f):
    return isinstance(1, A(f))


ALL = [
    w, it, gen, gen2, cls, star, unpack, dele, aug, fmt, hsh, comp, lam, evl, exc, fin, coro, prop, imp, ise,
    lambda f: A(f).x, lambda f: A(f)[1], lambda f: 1 in A(f), lambda f: not A(f), lambda f: A(f) == 1,
    lambda f: A(f) < 1, lambda f: A(f) + 1, lambda f: -A(f), lambda f: len(A(f)),
    lambda f: sorted([2, 1], key=lambda v: f()), lambda f: functools.reduce(lambda a, b: f(), [1, 2]),
    lambda f: functools.partial(f)(), lambda f: (1 if A(f) else 2), lambda f: A(f) and 1, lambda f: [*A(f)],
]
chain(ALL)
