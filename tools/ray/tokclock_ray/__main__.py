"""`python -m tokclock_ray` is `tokclock-ray`."""

import sys

from tokclock_ray.cli import main

sys.exit(main())
