"""Names that differ between pandas 2 and pandas 3."""

import pandas as pd

# What pandas makes of texts by itself: `object` in pandas 2, `str` from pandas 3 on. By the name "str", pandas 2 would
# turn None into the text "None".
TEXT = pd.Series([""]).dtype
