-- Version 11: where the other gateways of the database reach a gateway, and the loopback network that it means.
ALTER TABLE node ADD COLUMN url TEXT;
ALTER TABLE node ADD COLUMN loopback TEXT;
