//go:build linux

package cri

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/penstock-project/penstock/conformance/lab/image"
)

// about uses the requested name as the ID, because the kubelet also looks up images by ID.
func about(ref string, img image.Image) *runtimeapi.Image {
	return &runtimeapi.Image{
		Id: ref, RepoTags: []string{ref}, Size: 1, Spec: &runtimeapi.ImageSpec{Image: ref},
		Uid: &runtimeapi.Int64Value{Value: img.User}, // the kubelet rejects root if a pod forbids it
	}
}

// ImageStatus reports whether the table has an image.
func (s *Server) ImageStatus(_ context.Context, req *runtimeapi.ImageStatusRequest) (*runtimeapi.ImageStatusResponse,
	error) {
	ref := req.GetImage().GetImage()
	img, err := s.Images.Find(ref)
	if errors.Is(err, image.ErrUnknown) {
		return &runtimeapi.ImageStatusResponse{}, nil
	}
	if err != nil {
		return nil, err
	}
	return &runtimeapi.ImageStatusResponse{Image: about(ref, img)}, nil
}

// PullImage succeeds if the image is loaded.
func (s *Server) PullImage(_ context.Context, req *runtimeapi.PullImageRequest) (*runtimeapi.PullImageResponse, error) {
	ref := req.GetImage().GetImage()
	if _, err := s.Images.Find(ref); err != nil {
		return nil, status.Error(codes.NotFound, err.Error())
	}
	return &runtimeapi.PullImageResponse{ImageRef: ref}, nil
}

// ListImages lists the table.
func (s *Server) ListImages(context.Context, *runtimeapi.ListImagesRequest) (*runtimeapi.ListImagesResponse, error) {
	list, err := s.Images.List()
	if err != nil {
		return nil, err
	}
	resp := &runtimeapi.ListImagesResponse{}
	for _, i := range list {
		resp.Images = append(resp.Images, about(i.Name, i))
	}
	return resp, nil
}

// RemoveImage does nothing: the kubelet does not manage the table.
func (s *Server) RemoveImage(context.Context, *runtimeapi.RemoveImageRequest) (*runtimeapi.RemoveImageResponse, error) {
	return &runtimeapi.RemoveImageResponse{}, nil
}

// ImageFsInfo reports that images use no disk space.
func (s *Server) ImageFsInfo(context.Context, *runtimeapi.ImageFsInfoRequest) (*runtimeapi.ImageFsInfoResponse, error) {
	usage := &runtimeapi.FilesystemUsage{
		Timestamp: time.Now().UnixNano(), FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: s.Dir},
		UsedBytes: &runtimeapi.UInt64Value{}, InodesUsed: &runtimeapi.UInt64Value{},
	}
	return &runtimeapi.ImageFsInfoResponse{
		ImageFilesystems:     []*runtimeapi.FilesystemUsage{usage},
		ContainerFilesystems: []*runtimeapi.FilesystemUsage{usage},
	}, nil
}
