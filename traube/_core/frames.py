"""What pandas 2 and pandas 3 have under different names."""

import pandas as pd

# What pandas makes of texts by itself: `object` in pandas 2, `str` from pandas 3 on. Asked for "str", pandas 2 would
# turn None into the text "None".
TEXT = pd.Series([""]).dtype
