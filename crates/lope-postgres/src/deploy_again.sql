-- Make a known version ($1) the latest of its name again, if it is not.
update {schema}.workflows w
set deployed_at = greatest({now}, (select max(o.deployed_at) + 1 from {schema}.workflows o where o.name = w.name))
where w.version = $1
    and w.deployed_at < (select max(o.deployed_at) from {schema}.workflows o where o.name = w.name)
