"""The command ``python -m forebay.harm``. In programs ``forebay.harm`` is a function."""

import sys

if __name__ == "__main__":
    from forebay._harm_command import main

    sys.exit(main())

# An import sets the package's attribute to what stands here: the function, not this module. It has
# the module's specification, which importlib looks for.
import forebay

forebay.harm.__dict__.update(__file__=__file__, __spec__=__spec__)
sys.modules[__name__] = forebay.harm  # type: ignore[assignment]
