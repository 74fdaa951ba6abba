"""A task's page: `page` puts together what each other module gathers for one part."""
