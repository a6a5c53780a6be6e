-- The databases of one server: 'dagster' (made by the server's image) has the history of runs, 'service' the keys and
-- charges of 'holderlake serve', 'state' the credits and leases of several hosts with one lake.
CREATE DATABASE service;
CREATE DATABASE state;
