"""A task's page: who does best and at what cost, on which texts models differ, what is confused with
what. One file that needs no server and no network.

`page` puts it together; each other module gathers what one part of it shows. What people wrote is
carried as JSON and put into the page as text, never as HTML.
"""

from traube.reports.explorer.page import task_page

__all__ = ["task_page"]
