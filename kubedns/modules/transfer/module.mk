# nettle has the HMAC functions for TSIG.
transfer_PACKAGES := nettle-dev
transfer_LIBS := -lnettle
