"""The command ``python -m forebay.harm``. In programs ``forebay.harm`` is a function."""

import sys

if __name__ == "__main__":
    from forebay._harm_command import main

    sys.exit(main())

# An import sets the package's attribute to what stands here: the function, not this module.
import forebay

sys.modules[__name__] = forebay.harm  # type: ignore[assignment]
