package file

import (
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/inferenceapi/llmd"
)

func inferenceModelRewriteKind() *kind {
	return &kind{table: store.InferenceModelRewrites, versions: bothGroups(), crd: "inferencemodelrewrites"}
}

func bothGroups() []version {
	return []version{
		{llmd.Group + "/" + llmd.Version, nil},
		{inferenceapi.Group + "/" + llmd.Version, func(*draft) {}},
	}
}
