module github.com/penstock-project/penstock/conformance

go 1.26.8
