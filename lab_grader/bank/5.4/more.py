"""Exercise 5.4. Mistakes that are computed or share a frame: a line says what differs."""

from __future__ import annotations

from lab_grader.bank.engine import Wrong

wrong = Wrong()


_FORMULAS_5_4 = """
norm(x) + norm(x)
norm(norm(x))
norm(norm(x)) + x
norm(norm(x)) + sublayer(x)
norm(norm(x)) + norm(x)
sublayer(sublayer(x))
norm(sublayer(x)) + sublayer(x)
sublayer(sublayer(norm(x)))
norm(sublayer(norm(x))) + sublayer(x)
sublayer(norm(sublayer(x)))
norm(norm(sublayer(x)))
norm(norm(sublayer(x))) + x
norm(norm(sublayer(x))) + sublayer(x)
norm(norm(sublayer(x))) + norm(x)
sublayer(norm(sublayer(norm(x))))
norm(norm(sublayer(norm(x))))
norm(norm(sublayer(norm(x)))) + x
norm(norm(sublayer(norm(x)))) + sublayer(x)
norm(norm(sublayer(norm(x)))) + norm(x)
x + x
sublayer(x + x)
norm(x + x)
norm(x + x) + x
norm(x + x) + sublayer(x)
norm(x + x) + norm(x)
norm(x + norm(x))
norm(x + norm(x)) + x
norm(x + norm(x)) + sublayer(x)
sublayer(x + sublayer(x))
norm(x + sublayer(x)) + x
norm(x + sublayer(x)) + sublayer(x)
norm(x + sublayer(x)) + norm(x)
sublayer(x + sublayer(norm(x)))
norm(x + sublayer(norm(x))) + x
norm(x + sublayer(norm(x))) + sublayer(x)
norm(x + sublayer(norm(x))) + norm(x)
sublayer(x + norm(sublayer(x)))
norm(x + norm(sublayer(x)))
norm(x + norm(sublayer(x))) + x
norm(x + norm(sublayer(x))) + sublayer(x)
norm(x + norm(sublayer(x))) + norm(x)
sublayer(x + norm(sublayer(norm(x))))
norm(x + norm(sublayer(norm(x))))
norm(x + norm(sublayer(norm(x)))) + x
norm(x + norm(sublayer(norm(x)))) + sublayer(x)
norm(x + norm(sublayer(norm(x)))) + norm(x)
sublayer(norm(x) + norm(x))
norm(norm(x) + norm(x)) + sublayer(x)
sublayer(norm(x) + sublayer(x))
norm(norm(x) + sublayer(x)) + x
norm(norm(x) + sublayer(x)) + sublayer(x)
norm(norm(x) + sublayer(x)) + norm(x)
sublayer(norm(x) + sublayer(norm(x)))
norm(norm(x) + sublayer(norm(x))) + x
norm(norm(x) + sublayer(norm(x))) + sublayer(x)
norm(norm(x) + sublayer(norm(x))) + norm(x)
sublayer(norm(x) + norm(sublayer(x)))
norm(norm(x) + norm(sublayer(x)))
norm(norm(x) + norm(sublayer(x))) + x
norm(norm(x) + norm(sublayer(x))) + sublayer(x)
norm(norm(x) + norm(sublayer(x))) + norm(x)
sublayer(norm(x) + norm(sublayer(norm(x))))
norm(norm(x) + norm(sublayer(norm(x))))
norm(norm(x) + norm(sublayer(norm(x)))) + x
norm(norm(x) + norm(sublayer(norm(x)))) + sublayer(x)
norm(norm(x) + norm(sublayer(norm(x)))) + norm(x)
sublayer(x) + sublayer(x)
sublayer(sublayer(x) + sublayer(x))
norm(sublayer(x) + sublayer(x))
norm(sublayer(x) + sublayer(x)) + x
norm(sublayer(x) + sublayer(x)) + sublayer(x)
norm(sublayer(x) + sublayer(x)) + norm(x)
sublayer(x) + sublayer(norm(x))
sublayer(sublayer(x) + sublayer(norm(x)))
norm(sublayer(x) + sublayer(norm(x)))
norm(sublayer(x) + sublayer(norm(x))) + x
norm(sublayer(x) + sublayer(norm(x))) + sublayer(x)
norm(sublayer(x) + sublayer(norm(x))) + norm(x)
sublayer(sublayer(x) + norm(sublayer(x)))
norm(sublayer(x) + norm(sublayer(x)))
norm(sublayer(x) + norm(sublayer(x))) + x
norm(sublayer(x) + norm(sublayer(x))) + sublayer(x)
norm(sublayer(x) + norm(sublayer(x))) + norm(x)
sublayer(sublayer(x) + norm(sublayer(norm(x))))
norm(sublayer(x) + norm(sublayer(norm(x))))
norm(sublayer(x) + norm(sublayer(norm(x)))) + x
norm(sublayer(x) + norm(sublayer(norm(x)))) + sublayer(x)
norm(sublayer(x) + norm(sublayer(norm(x)))) + norm(x)
sublayer(sublayer(norm(x)) + sublayer(norm(x)))
norm(sublayer(norm(x)) + sublayer(norm(x)))
norm(sublayer(norm(x)) + sublayer(norm(x))) + x
norm(sublayer(norm(x)) + sublayer(norm(x))) + sublayer(x)
sublayer(norm(x)) + norm(sublayer(x))
sublayer(sublayer(norm(x)) + norm(sublayer(x)))
norm(sublayer(norm(x)) + norm(sublayer(x)))
norm(sublayer(norm(x)) + norm(sublayer(x))) + x
norm(sublayer(norm(x)) + norm(sublayer(x))) + sublayer(x)
norm(sublayer(norm(x)) + norm(sublayer(x))) + norm(x)
sublayer(norm(x)) + norm(sublayer(norm(x)))
sublayer(sublayer(norm(x)) + norm(sublayer(norm(x))))
norm(sublayer(norm(x)) + norm(sublayer(norm(x))))
norm(sublayer(norm(x)) + norm(sublayer(norm(x)))) + x
norm(sublayer(norm(x)) + norm(sublayer(norm(x)))) + sublayer(x)
norm(sublayer(norm(x)) + norm(sublayer(norm(x)))) + norm(x)
norm(sublayer(x)) + norm(sublayer(x))
sublayer(norm(sublayer(x)) + norm(sublayer(x)))
norm(norm(sublayer(x)) + norm(sublayer(x)))
norm(norm(sublayer(x)) + norm(sublayer(x))) + x
norm(norm(sublayer(x)) + norm(sublayer(x))) + sublayer(x)
norm(norm(sublayer(x)) + norm(sublayer(x))) + norm(x)
norm(sublayer(x)) + norm(sublayer(norm(x)))
sublayer(norm(sublayer(x)) + norm(sublayer(norm(x))))
norm(norm(sublayer(x)) + norm(sublayer(norm(x))))
norm(norm(sublayer(x)) + norm(sublayer(norm(x)))) + x
norm(norm(sublayer(x)) + norm(sublayer(norm(x)))) + sublayer(x)
norm(norm(sublayer(x)) + norm(sublayer(norm(x)))) + norm(x)
norm(sublayer(norm(x))) + norm(sublayer(norm(x)))
sublayer(norm(sublayer(norm(x))) + norm(sublayer(norm(x))))
norm(norm(sublayer(norm(x))) + norm(sublayer(norm(x))))
norm(norm(sublayer(norm(x))) + norm(sublayer(norm(x)))) + x
norm(norm(sublayer(norm(x))) + norm(sublayer(norm(x)))) + sublayer(x)
norm(norm(sublayer(norm(x))) + norm(sublayer(norm(x)))) + norm(x)
x + norm(x) + sublayer(x)
x + norm(x) + norm(sublayer(x))
x + norm(x) + norm(sublayer(norm(x)))
x + sublayer(x) + sublayer(norm(x))
x + sublayer(x) + norm(sublayer(x))
x + sublayer(x) + norm(sublayer(norm(x)))
x + sublayer(norm(x)) + norm(sublayer(x))
x + sublayer(norm(x)) + norm(sublayer(norm(x)))
x + norm(sublayer(x)) + norm(sublayer(norm(x)))
norm(x) + sublayer(x) + sublayer(norm(x))
norm(x) + sublayer(x) + norm(sublayer(x))
norm(x) + sublayer(x) + norm(sublayer(norm(x)))
norm(x) + sublayer(norm(x)) + norm(sublayer(x))
norm(x) + sublayer(norm(x)) + norm(sublayer(norm(x)))
norm(x) + norm(sublayer(x)) + norm(sublayer(norm(x)))
sublayer(x) + sublayer(norm(x)) + norm(sublayer(x))
sublayer(x) + sublayer(norm(x)) + norm(sublayer(norm(x)))
sublayer(x) + norm(sublayer(x)) + norm(sublayer(norm(x)))
sublayer(norm(x)) + norm(sublayer(x)) + norm(sublayer(norm(x)))
"""


for _text in _FORMULAS_5_4.strip().splitlines():
    wrong(
        _text.replace(" ", ""),
        f"You compute {_text}. Pre-norm normalises what the sublayer sees, once, and adds its result "
        "to the raw input.",
    )(eval(f"lambda x, sublayer, norm: {_text}"))
