"""The command ``python -m forebay.sweep``. In programs ``forebay.sweep`` is a function."""

import sys

if __name__ == "__main__":
    from forebay._sweep_command import main

    sys.exit(main())

# An import sets the package's attribute to what stands here: the function, not this module. It has
# the module's specification, which importlib looks for.
import forebay

forebay.sweep.__dict__.update(__file__=__file__, __spec__=__spec__)
sys.modules[__name__] = forebay.sweep  # type: ignore[assignment]
