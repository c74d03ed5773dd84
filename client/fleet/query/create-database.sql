-- the database
--
-- internal
CREATE DATABASE IF NOT EXISTS :database:on
