"""A task's page: `page` puts together the parts that the other modules make."""
