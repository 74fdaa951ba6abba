"""The reducers and clusterers that come with Traube, one module for each family. Each
module is found by itself.

A module names its components, their parameters with defaults, and what they need (`register_reducer`,
`register_clusterer`). It is light: scikit-learn alone takes a second to import, and plans and lists
need no estimators, so estimators are imported by the functions that build them.

The defaults are the parameters of protocol `paper`: those of the German benchmark's code (Wehrli et
al. 2023; ALGORITHMS A.3). Every parameter that may be set is listed: another name is an error.
"""
