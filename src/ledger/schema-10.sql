-- Version 10: the number of each machine among those that share the database, which the ids of its conversations have, and its newest gateway.
CREATE TABLE machine (number INTEGER PRIMARY KEY, node TEXT) STRICT;
