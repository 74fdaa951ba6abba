"""The reducers and clusterers that come with Traube, one discovered module for each family.

The package is light: scikit-learn alone takes a second to import, so estimators are imported when they are built.
Defaults are the parameters of protocol `paper` in params.yaml.
Every parameter that may be set is listed: another name is an error.
"""
