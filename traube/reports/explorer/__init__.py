"""A task's page, one file that needs no server: `page` puts together what each other module gathers for one part.

What people wrote is carried as JSON and put into the page as text, never as HTML."""
