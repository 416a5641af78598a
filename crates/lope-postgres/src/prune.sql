-- One part of a prune: walk over at most $6 runs created before $1, from behind ($4, $5) on, and delete at most $3 of those
-- that ended before $1 in one of the ways $2 (none given: any). A run that is just being reopened is left alone.
-- Answer: which were deleted, how many were found (one more at most), how many were looked at, and the last of them that
-- was dealt with.
with seen as materialized (
    select r.run_id, r.created_at, r.finished_at < $1 and (cardinality($2) = 0 or r.status = any ($2)) as meant
    from {schema}.runs r
    where (r.created_at, r.run_id) > ($4, $5) and r.created_at < $1
    order by r.created_at, r.run_id
    limit $6
),
{prune_tail}
