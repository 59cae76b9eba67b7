"""Edits of every kind, alone and together, in every layout that a Python statement can have."""

import ast
import random

import pytest

from migrator.edits import DropArgument, Inline, InsertAfter, InsertBefore, Labelled, Remove, Replace, SetArgument
from migrator.load.source import SourceError
from migrator.rewrite.apply import apply_edits
from migrator.rewrite.conflicts import EditConflict

from .edits import checked, guard, module_of, place, rewrite


# ---------------------------------------------------------------- expressions
@pytest.mark.parametrize(
    ("text", "part", "new", "expected"),
    [
        ("x = f(1)\n", "f(1)", "g()", "x = g()\n"),
        ("x = (f(1))\n", "f(1)", "g()", "x = (g())\n"),
        ("x = f(1).cuda()\n", "f(1)", "a if b else c", "x = (a if b else c).cuda()\n"),
        ("x = f(1)\n", "f(1)", "a if b else c", "x = a if b else c\n"),
        ("x = 2 * f(1)\n", "f(1)", "a + b", "x = 2 * (a + b)\n"),
        ("x = f(1) if f(2) else 3\n", "f(2)", "a or b", "x = f(1) if (a or b) else 3\n"),
        ("g(*f(1), k=f(2))\n", "f(1)", "a or b", "g(*(a or b), k=f(2))\n"),
        ("g(*f(1), k=f(2))\n", "f(2)", "a or b", "g(*f(1), k=a or b)\n"),
        ("x = not f(1)\n", "f(1)", "a == b", "x = not (a == b)\n"),
        ("x = [f(1) for y in z if y]\n", "f(1)", "a", "x = [a for y in z if y]\n"),
        ("x = (1, 2)\n", "(1, 2)", "a", "x = a\n"),
        ("x = (y for y in z)\n", "(y for y in z)", "a", "x = a\n"),
        ("x = 'ü', f(1)\n", "f(1)", "a", "x = 'ü', a\n"),
        ("print(f'{f(1)}')\n", "f(1)", "a", "print(f'{a}')\n"),
        ("@f(1)\ndef g():\n    pass\n", "f(1)", "a.b", "@a.b\ndef g():\n    pass\n"),
        ("async def g():\n    await f(1)\n", "f(1)", "a or b", "async def g():\n    await (a or b)\n"),
        ("x = -f(1) ** 2\n", "f(1)", "-a", "x = -(-a) ** 2\n"),
        ("x = lambda: f(1)\n", "f(1)", "a", "x = lambda: a\n"),
        ("f(1)[0].b = 2\n", "f(1)", "a", "a[0].b = 2\n"),
        ("with f(1) as g:\n    pass\n", "f(1)", "a", "with a as g:\n    pass\n"),
    ],
)
def test_replace(text, part, new, expected):
    assert rewrite(text, Replace(place(text, part), new)) == expected


@pytest.mark.parametrize(
    ("text", "whole", "hole", "new", "expected"),
    [
        ("m = DP(net)\n", "DP(net)", "net", "DDP($0)", "m = DDP(net)\n"),
        ("m = DP(a + b)\n", "DP(a + b)", "a + b", "$0.cuda()", "m = (a + b).cuda()\n"),
        ("m = DP(a + b)\n", "DP(a + b)", "a + b", "$0", "m = a + b\n"),
        ("m = DP(a + b).c\n", "DP(a + b)", "a + b", "$0", "m = (a + b).c\n"),
        ("m = DP(a +\n       b)\n", "DP(a +\n       b)", "a +\n       b", "$0", "m = (a +\n       b)\n"),
        ("m = DP(\n    net,  # the net\n)\n", "DP(\n    net,  # the net\n)", "net", "DDP($0)", "m = DDP(net)\n"),
        ("m = SW(x)\n", "SW(x)", "SW(x)", "$0 if r == 0 else N()", "m = SW(x) if r == 0 else N()\n"),
        ("m = SW(x).add\n", "SW(x)", "SW(x)", "$0 if r == 0 else N()", "m = (SW(x) if r == 0 else N()).add\n"),
        ("m = DP(a if b else c)\n", "DP(a if b else c)", "a if b else c", "$0 or $0", None),
    ],
)
def test_replace_keeps_its_holes(text, whole, hole, new, expected):
    expected = expected or "m = (a if b else c) or (a if b else c)\n"
    assert rewrite(text, Replace(place(text, whole), new, (place(text, hole),))) == expected


def test_edits_inside_a_hole_are_kept():
    text = 'm = DP(net.to("cuda:0"), device_ids=[0])\n'
    inner = place(text, 'net.to("cuda:0")')
    edits = Replace(place(text, text[4:-1]), "DDP($0)", (inner,)), Replace(place(text, '"cuda:0"'), '"cuda"')
    assert rewrite(text, *edits) == 'm = DDP(net.to("cuda"))\n'


def test_a_replacement_three_levels_deep():
    text = "a(b(c(d)))\n"
    edits = [
        Replace(place(text, "a(b(c(d)))"), "A($0)", (place(text, "b(c(d))"),)),
        Replace(place(text, "b(c(d))"), "B($0, $0)", (place(text, "c(d)"),)),
        SetArgument(place(text, "c(d)"), "x", "1", 0),
    ]
    assert rewrite(text, *edits) == "A(B(c(1), c(1)))\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f()\n", "f(k=1)\n"),
        ("f(a)\n", "f(a, k=1)\n"),
        ("f(a,)\n", "f(a, k=1,)\n"),
        ("f(a, k=2)\n", "f(a, k=1)\n"),
        ("f(a, k = 2)\n", "f(a, k = 1)\n"),
        ("f(a, 2)\n", "f(a, 1)\n"),
        ("f(*a)\n", "f(*a, k=1)\n"),
        ("f(**a)\n", "f(k=1, **a)\n"),
        ("f(a, **b)\n", "f(a, k=1, **b)\n"),
        ("f(x for x in y)\n", "f((x for x in y), k=1)\n"),
        ("f(a,\n  b=3)\n", "f(a,\n  b=3,\n  k=1)\n"),
        ("f(\n    a\n)\n", "f(\n    a,\n    k=1\n)\n"),
        ("f(\n    a,\n)\n", "f(\n    a,\n    k=1,\n)\n"),
        ("f(\n    a,  # A\n    b=3  # B\n)\n", "f(\n    a,  # A\n    b=3,  # B\n    k=1\n)\n"),
        ("f(\n    a,  # A\n    b=3,  # B\n)\n", "f(\n    a,  # A\n    b=3,  # B\n    k=1,\n)\n"),
        ("f(a  # A\n)\n", "f(a,  # A\nk=1\n)\n"),
        ("f(\n\ta,\n\tb=3,\n)\n", "f(\n\ta,\n\tb=3,\n\tk=1,\n)\n"),
    ],
)
def test_set_argument(text, expected):
    result = rewrite(text, SetArgument(place(text, text.rstrip()), "k", "1", 1))
    assert result == expected


@pytest.mark.parametrize(
    ("text", "name", "position", "expected"),
    [
        ("x.cuda(0)\n", "device", 0, "x.cuda()\n"),
        ("f(a, b)\n", "b", 1, "f(a)\n"),
        ("f(a, b)\n", "a", 0, "f(b)\n"),
        ("f(a, k=1, b=2)\n", "k", None, "f(a, b=2)\n"),
        ("f(a, k=1)\n", "k", None, "f(a)\n"),
        ("f(a, k=1,)\n", "k", None, "f(a,)\n"),
        ("f(\n    a,\n    k=1,\n    b=2,\n)\n", "k", None, "f(\n    a,\n    b=2,\n)\n"),
        ("f(\n    a,\n    k=1,\n)\n", "k", None, "f(\n    a,\n)\n"),
        ("f(\n    a,\n    k=1\n)\n", "k", None, "f(\n    a\n)\n"),
        ("f(*a, 2)\n", "k", 1, "f(*a, 2)\n"),
        ("f(a)\n", "k", None, "f(a)\n"),
    ],
)
def test_drop_argument(text, name, position, expected):
    assert rewrite(text, DropArgument(place(text, text.rstrip()), name, position)) == expected


def test_drop_and_set_on_one_call():
    text = "x.cuda(asinc=True)\n"
    at = place(text, "x.cuda(asinc=True)")
    assert rewrite(text, DropArgument(at, "asinc"), SetArgument(at, "non_blocking", "True")) == (
        "x.cuda(non_blocking=True)\n"
    )


def test_set_argument_inside_a_replacement():
    text = "m = DP(load(a, shuffle=True))\n"
    load = place(text, "load(a, shuffle=True)")
    edits = Replace(place(text, text[4:-1]), "DDP($0)", (load,)), SetArgument(load, "shuffle", "False")
    assert rewrite(text, *edits) == "m = DDP(load(a, shuffle=False))\n"


# ---------------------------------------------------------------- statements
A = InsertBefore
Z = InsertAfter


@pytest.mark.parametrize(
    ("text", "kind", "part", "expected"),
    [
        ("a()\nb()\n", A, "b()", "a()\nn()\nb()\n"),
        ("a()\nb()\n", Z, "b()", "a()\nb()\nn()\n"),
        ("a()\nb()", Z, "b()", "a()\nb()\nn()"),
        ("a()\n\n# why\nb()\n", A, "b()", "a()\n\nn()\n\n# why\nb()\n"),
        ("a()  # one\nb()\n", Z, "a()", "a()  # one\nn()\nb()\n"),
        ("a(); b(); c()\n", A, "b()", "a()\nn()\nb()\nc()\n"),
        ("a(); b(); c()  # all\n", Z, "b()", "a()\nb()\nn()\nc()  # all\n"),
        ("# first\na(); b()\n", A, "a()", "# first\nn()\na()\nb()\n"),
        ("if x: a()\n", A, "a()", "if x:\n    n()\n    a()\n"),
        ("if x: a(); b()\n", A, "b()", "if x:\n    a()\n    n()\n    b()\n"),
        ("if x: a()\nelse: b()\n", Z, "b()", "if x: a()\nelse:\n    b()\n    n()\n"),
        ("if x: a()  # one\n", Z, "a()", "if x:  # one\n    a()\n    n()\n"),
        ("for i in x: a()\n", A, "a()", "for i in x:\n    n()\n    a()\n"),
        ("if x:\n\ta()\n", A, "a()", "if x:\n\tn()\n\ta()\n"),
        ("if x:\n  a()\n", A, "a()", "if x:\n  n()\n  a()\n"),
        ("if x:\r\n  a()\r\n", A, "a()", "if x:\r\n  n()\r\n  a()\r\n"),
        ("if x:\n    a()\nelif y:\n    b()\n", A, "b()", "if x:\n    a()\nelif y:\n    n()\n    b()\n"),
        ("@d\ndef f():\n    pass\n", A, "def f():\n    pass", "n()\n@d\ndef f():\n    pass\n"),
        ("x\n@d\nclass f:\n    pass\n", Z, "class f:\n    pass", "x\n@d\nclass f:\n    pass\nn()\n"),
        ("try:\n    a()\nexcept E:\n    b()\n", A, "b()", "try:\n    a()\nexcept E:\n    n()\n    b()\n"),
        ("try:\n    a()\nfinally:\n    b()\n", A, "b()", "try:\n    a()\nfinally:\n    n()\n    b()\n"),
        (
            "with x:\n    a(\n        1,\n    )\n",
            Z,
            "a(\n        1,\n    )",
            "with x:\n    a(\n        1,\n    )\n    n()\n",
        ),
        ("match x:\n    case 1:\n        a()\n", A, "a()", "match x:\n    case 1:\n        n()\n        a()\n"),
        ("def f():\n    a()\n    # end\nb()\n", Z, "a()", "def f():\n    a()\n    n()\n    # end\nb()\n"),
        ("a = \\\n    1\nb()\n", Z, "a", "a = \\\n    1\nn()\nb()\n"),
    ],
)
def test_insert(text, kind, part, expected):
    assert rewrite(text, kind(place(text, part), "n()\n")) == expected


def test_inserted_blocks_take_the_indentation_and_newlines_of_the_file():
    text = "class A:\r\n\tdef f(self):\r\n\t\ta()\r\n"
    new = 'def g():\n    """One.\n\n    Two.\n    """\n    if x:\n        pass\n'
    result = rewrite(text, A(place(text, "a()"), new))
    assert "\t\tdef g():\r\n" in result
    assert "\t\t\tif x:\r\n\t\t\t\tpass\r\n\t\ta()\r\n" in result
    assert result.count("\n") == result.count("\r\n")


def test_inserted_definitions_stand_two_lines_apart():
    text = "import a\n\nb()\n"
    assert rewrite(text, A(place(text, "b()"), "\n\ndef f():\n    pass\n\n\n")) == (
        "import a\n\n\ndef f():\n    pass\n\n\nb()\n"
    )


def test_insertions_at_one_place_keep_their_order():
    text = "a()\n"
    at = place(text, "a()")
    assert rewrite(text, A(at, "one()\n"), A(at, "two()\n"), Z(at, "three()\n"), Z(at, "four()\n")) == (
        "one()\ntwo()\na()\nthree()\nfour()\n"
    )


@pytest.mark.parametrize(
    ("text", "part", "expected"),
    [
        ("a()\nb()\n", "b()", "a()\n"),
        ("a()\n# why\nb()\nc()\n", "b()", "a()\n# why\nc()\n"),
        ("a()\n\n# why\nb()\n\nc()\n", "b()", "a()\n\nc()\n"),
        ("a()\n\n# why\nb()\nc()\n", "b()", "a()\n\n# why\nc()\n"),
        ("a()\n\n# ----- setup\nb()\n\nc()\n", "b()", "a()\n\n# ----- setup\n\nc()\n"),
        ("def f():\n    # why\n    b()\n", "b()", "def f():\n    pass\n    # why\n"),
        ("def f():\n    a()\n    # why\n    b()\nc()\n", "b()", "def f():\n    a()\n    # why\nc()\n"),
        ("a(); b(); c()\n", "b()", "a()\nc()\n"),
        ("if x: b()\n", "b()", "if x:\n    pass\n"),
        ("if x: a(); b()\n", "b()", "if x:\n    a()\n"),
        ("b()\n", "b()", "\n"),
        ("a()\n\nb()\n\nc()\n", "b()", "a()\n\nc()\n"),
        ("if a:\n    b\nelse:\n    # why\n    c\nd\n", "c", "if a:\n    b\nd\n"),
        ("if a:\n    b\nelif e:\n    c\nd\n", "c", "if a:\n    b\nelif e:\n    pass\nd\n"),
        ("for a in b:\n    d\nelse:\n    c\n", "c", "for a in b:\n    d\nelse:\n    pass\n"),
    ],
)
def test_remove(text, part, expected):
    assert rewrite(text, Remove(place(text, part))) == expected


def test_insert_before_a_removed_statement():
    text = "# why\na()\nb()\n"
    at = place(text, "a()")
    assert rewrite(text, Remove(at), A(at, "n()\n")) == "# why\nn()\nb()\n"


@pytest.mark.parametrize(
    ("text", "parts", "expected"),
    [
        ("a()\nb()\nc()\n", ["a()", "b()"], "if first:\n    a()\n    b()\nc()\n"),
        ("# why\na()\nb()\n", ["a()"], "# why\nif first:\n    a()\nb()\n"),
        ("a()\n\n# then\nb()\nc()\n", ["a()", "b()"], "if first:\n    a()\n\n    # then\n    b()\nc()\n"),
        ("a(); b()\nc()\n", ["b()"], "a()\nif first:\n    b()\nc()\n"),
        ("x(); a(); b()\nc()\n", ["a()", "b()", "c()"], "x()\nif first:\n    a()\n    b()\n    c()\n"),
        ("if x: a(); b()\n", ["a()", "b()"], "if x:\n    if first:\n        a()\n        b()\n"),
        ("if x:\n\ta()\n", ["a()"], "if x:\n\tif first:\n\t\ta()\n"),
        ("a(\n    1,\n    2,\n)\n", ["a(\n    1,\n    2,\n)"], "if first:\n    a(\n        1,\n        2,\n    )\n"),
        ("a('''\nx\n''')\n", ["a('''\nx\n''')"], "if first:\n    a('''\nx\n''')\n"),
        (
            "with f() as g:\n    a()\nc()\n",
            ["with f() as g:\n    a()"],
            "if first:\n    with f() as g:\n        a()\nc()\n",
        ),
        ("a()\nb()", ["a()", "b()"], "if first:\n    a()\n    b()"),
    ],
)
def test_guard(text, parts, expected):
    assert rewrite(text, guard(text, *parts)) == expected


def test_what_is_inserted_around_a_guarded_group_stays_outside():
    text = "a()\nb()\nc()\n"
    edits = guard(text, "a()", "b()"), A(place(text, "a()"), "n()\n"), Z(place(text, "b()"), "barrier()\n")
    assert rewrite(text, *edits) == "n()\nif first:\n    a()\n    b()\nbarrier()\nc()\n"


def test_what_is_inserted_within_a_guarded_group_stays_inside():
    text = "a()\nb()\n"
    edits = guard(text, "a()", "b()"), Z(place(text, "a()"), "n()\n"), A(place(text, "b()"), "m()\n")
    assert rewrite(text, *edits) == "if first:\n    a()\n    n()\n    m()\n    b()\n"


def test_two_guarded_groups_side_by_side():
    text = "a()\nb()\n"
    one, two = guard(text, "a()"), guard(text, "b()", test="second")
    assert rewrite(text, one, two, Z(place(text, "a()"), "n()\n")) == ("if first:\n    a()\nn()\nif second:\n    b()\n")


def test_edits_inside_guarded_statements():
    text = "save(m.cuda(0), p)\n"
    edits = guard(text, "save(m.cuda(0), p)"), DropArgument(place(text, "m.cuda(0)"), "device", 0)
    assert rewrite(text, *edits) == "if first:\n    save(m.cuda(), p)\n"


def test_removing_all_that_is_guarded_leaves_no_guard():
    text = "a()\nb()\n"
    with pytest.raises(EditConflict):
        rewrite(text, guard(text, "a()"), Remove(place(text, "a()")))


@pytest.mark.parametrize(
    ("text", "orelse", "expected"),
    [
        ("if x:\n    a()\nelse:\n    b()\nc()\n", False, "a()\nc()\n"),
        ("if x:\n    a()\nelse:\n    b()\nc()\n", True, "b()\nc()\n"),
        ("# why\nif x:\n    # one\n    a()\n    # two\nc()\n", False, "# why\n# one\na()\n# two\nc()\n"),
        ("if x: a(); b()\nc()\n", False, "a(); b()\nc()\n"),
        ("if x: a()  # one\n", False, "a()  # one\n"),
        ("def f():\n    if x:\n        a()\n        # end\n", False, "def f():\n    a()\n    # end\n"),
        ("def f():\n\tif x:\n\t\ta(\n\t\t\t1,\n\t\t)\n", False, "def f():\n\ta(\n\t\t1,\n\t)\n"),
    ],
)
def test_inline(text, orelse, expected):
    whole = text[text.index("if x") :].split("\nc()")[0].rstrip()
    assert rewrite(text, Inline(place(text, whole), orelse)) == expected


def test_inline_keeps_the_edits_of_the_branch():
    text = "if multi: m = DP(net)\n"
    edits = Inline(place(text, text.rstrip())), Replace(place(text, "DP(net)"), "DDP($0)", (place(text, "net"),))
    assert rewrite(text, *edits) == "m = DDP(net)\n"


def test_a_dropped_branch_takes_its_edits_along():
    text = "if x:\n    a()\nelse:\n    m.cuda(0)\n"
    edits = Inline(place(text, text.rstrip())), DropArgument(place(text, "m.cuda(0)"), "device", 0)
    assert rewrite(text, *edits) == "a()\n"


# ---------------------------------------------------------------- conflicts
@pytest.mark.parametrize(
    "edits",
    [
        lambda t: (Replace(place(t, "f(0)"), "a"), Replace(place(t, "f(0)"), "b")),
        lambda t: (SetArgument(place(t, "f(0)"), "k", "1"), SetArgument(place(t, "f(0)"), "k", "2")),
        lambda t: (SetArgument(place(t, "f(0)"), "k", "1"), DropArgument(place(t, "f(0)"), "k")),
        lambda t: (Remove(place(t, "f(0)")), guard(t, "f(0)")),
        lambda t: (guard(t, "f(0)"), guard(t, "f(0)", "g(f(1))", test="second")),
        lambda t: (Replace(place(t, "g(f(1))"), "h(f(1))"), Replace(place(t, "f(1)"), "a")),
    ],
    ids=["two replacements", "two values", "set and drop", "remove and guard", "two guards", "swallowed"],
)
def test_two_edits_at_one_place_are_a_conflict(edits):
    text = "f(0)\ng(f(1))\n"
    one, two = edits(text)
    with pytest.raises(EditConflict) as conflict:
        apply_edits(text, [Labelled(one, "MG001", "one"), Labelled(two, "MG002", "two")])
    assert conflict.value.rules == ("MG001", "MG002")


def test_equal_edits_of_two_rules_are_a_conflict_and_of_one_rule_are_one():
    text = "f(0)\n"
    edit = Replace(place(text, "f(0)"), "a")
    assert apply_edits(text, [Labelled(edit, "MG001", "x"), Labelled(edit, "MG001", "x")]).text == "a\n"


@pytest.mark.parametrize(
    ("text", "edit"),
    [
        ("a()\n", Replace(place("a()\n", "a"), "b", (place("a()\n", "()"),))),
        ("x = 1\n", Replace(place("x = 1\n", "= 1"), "b")),
        ("x = 1\n", Remove(place("x = 1\n", "= 1"))),
        ("if a:\n    b\nelif c:\n    d\n", Remove(place("if a:\n    b\nelif c:\n    d\n", "elif c:\n    d"))),
        ("if a:\n    b\nelif c:\n    d\n", A(place("if a:\n    b\nelif c:\n    d\n", "elif c:\n    d"), "n()\n")),
        ("x.y\n", DropArgument(place("x.y\n", "x.y"), "k")),
        ("while a:\n    b\n", Inline(place("while a:\n    b\n", "while a:\n    b"))),
        ("if a:\n    b\n", Inline(place("if a:\n    b\n", "if a:\n    b"), True)),
    ],
    ids=["hole", "replace", "remove", "elif", "before elif", "no call", "inline while", "no else"],
)
def test_an_edit_that_cannot_be_made_is_never_dropped(text, edit):
    with pytest.raises(EditConflict):
        apply_edits(text, [Labelled(edit, "MG001", "one")])


def test_deep_nesting_is_one_clear_error():
    text = "x = " + " + ".join(["a"] * 3000) + "\nb()\n"
    with pytest.raises(SourceError, match="nested too deeply"):
        apply_edits(text, [Labelled(Remove(place(text, "b()")), "MG001", "one")])


# ---------------------------------------------------------------- labels
def test_labels_of_two_rules_on_their_own_lines():
    text = "a(0)\nb(0)\nc(0)\n"
    result = apply_edits(
        text,
        [
            Labelled(Replace(place(text, "a(0)"), "A"), "MG001", "one"),
            Labelled(A(place(text, "c(0)"), "n()\nm()\n"), "MG002", "two"),
        ],
    )
    assert result.before == {1: {("MG001", "one", None)}}
    assert result.after == {
        n: {(rule, why, None)} for n, rule, why in [(1, "MG001", "one"), (3, "MG002", "two"), (4, "MG002", "two")]
    }


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_a_guarded_group_is_labelled_from_its_test_to_its_end(newline):
    text = newline.join(["x()", "a(", "    1,", ")", "# c", "b()", "y()", ""])
    call = newline.join(["a(", "    1,", ")"])
    result = apply_edits(text, [Labelled(guard(text, call, "b()"), "MG001", "r")])
    assert sorted(result.before) == [2, 3, 4, 5, 6]
    assert sorted(result.after) == [2, 3, 4, 5, 6, 7]


# ---------------------------------------------------------------- random programs
def _program(rng: random.Random, depth: int = 0) -> str:
    """A small program in a random layout: tabs or spaces, comments, suites on one line, semicolons, blank lines."""
    lines: list[str] = []
    for _ in range(rng.randint(1, 4)):
        kind = rng.random()
        name = f"v{rng.randint(0, 10**6)}"
        if rng.random() < 0.3:
            lines.append(rng.choice(["# note", "", "# ünïcode ✓"]))
        if kind < 0.3 or depth > 2:
            lines.append(f"{name} = call({name}_a, k={rng.randint(0, 9)}){rng.choice(['', '  # tail', ' ;w()'])}")
        elif kind < 0.4:
            lines += [f"{name}(", f"    {name}_a,  # first", f"    b='{rng.choice('xyü')}'{rng.choice(['', ','])}", ")"]
        elif kind < 0.5:
            lines.append(f"{name}(1); {name}(2)")
        elif kind < 0.6:
            lines.append(f"if {name}: {name}(3)")
        else:
            head = rng.choice([f"if {name}:", f"for {name} in z(4):", f"def {name}(self, a=f(5)):", "with w(6) as q:"])
            body = _program(rng, depth + 1).splitlines()
            lines += [head, *("    " + line if line else line for line in body)]
            if head.startswith("if") and rng.random() < 0.5:
                lines += [rng.choice(["else:", f"elif {name}_2:"]), f"    {name}(7)"]
    return "\n".join(lines) + "\n"


def _random_edits(rng: random.Random, text: str) -> list[Labelled]:
    module = module_of(text)
    edits: list[object] = []
    for node in module.nodes:
        if rng.random() > 0.25:
            continue
        if isinstance(node, ast.Call):
            span = module.span(node)
            function = module.span(node.func)
            edits.append(
                rng.choice(
                    [
                        Replace(span, "new($0) if t else other", (span,)),
                        Replace(span, "new($0)", (function,)),
                        SetArgument(span, "k", "10"),
                        DropArgument(span, "k"),
                    ]
                )
            )
        elif isinstance(node, ast.stmt):
            block, span = module.block(node), module.span(node)
            run = block[block.index(node) :][: rng.randint(1, 3)]
            spans = tuple(module.span(s) for s in run)
            edits.append(
                rng.choice([A(span, "n()\nm()\n"), Z(span, "n()\n"), Remove(span), Inline(span), *[_Run(spans)] * 3])
            )
    plain = [_as_guard(e) if isinstance(e, _Run) else e for e in edits]
    return [Labelled(edit, f"MG{n:03}", "r") for n, edit in enumerate(plain)]


class _Run(tuple):
    pass


def _as_guard(run):
    from migrator.edits import Guard

    return Guard(run[0], tuple(run), "first")


@pytest.mark.parametrize("seed", range(150))
def test_random_edits_of_random_programs(seed):
    rng = random.Random(seed)
    text = _program(rng)
    if rng.random() < 0.3:
        text = text.replace("    ", "\t")
    if rng.random() < 0.3:
        text = text.replace("\n", "\r\n")
    if rng.random() < 0.2:
        text = text.rstrip("\r\n")
    edits = _random_edits(rng, text)
    while edits:
        try:
            result = apply_edits(text, edits)
        except EditConflict as conflict:
            edits = [one for one in edits if one.rule != conflict.rules[-1]]
            continue
        checked(text, result)
        lines = [i for i, line in enumerate(text.splitlines(), 1) if i not in result.before]
        kept = result.text.splitlines()
        for number in lines:
            line = text.splitlines()[number - 1]
            if "#" in line and "note" in line:
                assert any("# note" in k for k in kept)
        return
    assert not edits
