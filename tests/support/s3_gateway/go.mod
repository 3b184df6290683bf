// The one place of the S3 server's version. There is no go.sum: tests/support/go_programs.py builds
// in a copy, where Go writes one after asking its checksum database.
module orbiter.dev/s3-server

go 1.26.0

require github.com/versity/versitygw v1.8.0
