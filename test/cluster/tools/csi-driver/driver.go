package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	"k8s.io/mount-utils"
	"k8s.io/utils/exec"
)

const (
	fsType = "xfs"
	// mkfs.xfs makes no smaller file system.
	minimumBytes = 300 << 20
)

var volumeID = regexp.MustCompile(`^[A-Za-z0-9-]{1,128}$`)

type driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
	csi.UnimplementedNodeServer

	name, node, images, socket string

	mounter *mount.SafeFormatAndMount
	resizer *mount.ResizeFs
	exec    exec.Interface
	// One operation at a time: losetup answers for the whole machine.
	lock sync.Mutex
}

// The registrar tells the kubelet about the driver, in place of the sidecar node-driver-registrar.
type registrar struct {
	registration.UnsafeRegistrationServer
	driver *driver
}

func (r *registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type:              registration.CSIPlugin,
		Name:              r.driver.name,
		Endpoint:          r.driver.socket,
		SupportedVersions: []string{"1.0.0"},
	}, nil
}

func (r *registrar) NotifyRegistrationStatus(_ context.Context, s *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	log.Printf("registered: %v %s", s.PluginRegistered, s.Error)
	return &registration.RegistrationStatusResponse{}, nil
}

func (d *driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: d.name, VendorVersion: "1"}, nil
}

func (d *driver) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	service := func(t csi.PluginCapability_Service_Type) *csi.PluginCapability {
		return &csi.PluginCapability{Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{Type: t}}}
	}
	expansion := &csi.PluginCapability{Type: &csi.PluginCapability_VolumeExpansion_{
		VolumeExpansion: &csi.PluginCapability_VolumeExpansion{Type: csi.PluginCapability_VolumeExpansion_ONLINE},
	}}
	return &csi.GetPluginCapabilitiesResponse{Capabilities: []*csi.PluginCapability{
		service(csi.PluginCapability_Service_CONTROLLER_SERVICE), expansion,
	}}, nil
}

func (d *driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

func (d *driver) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	rpc := func(t csi.ControllerServiceCapability_RPC_Type) *csi.ControllerServiceCapability {
		return &csi.ControllerServiceCapability{Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: t}}}
	}
	return &csi.ControllerGetCapabilitiesResponse{Capabilities: []*csi.ControllerServiceCapability{
		rpc(csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME),
		rpc(csi.ControllerServiceCapability_RPC_EXPAND_VOLUME),
	}}, nil
}

func (d *driver) CreateVolume(_ context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	if len(r.GetVolumeCapabilities()) == 0 {
		return nil, missing("volume_capabilities")
	}
	d.lock.Lock()
	defer d.lock.Unlock()
	image, err := d.image(r.GetName())
	if err != nil {
		return nil, err
	}
	for _, capability := range r.GetVolumeCapabilities() {
		if capability.GetMount() == nil {
			return nil, status.Error(codes.InvalidArgument, "the driver has mounted volumes only")
		}
	}
	size := max(r.GetCapacityRange().GetRequiredBytes(), minimumBytes)
	if limit := r.GetCapacityRange().GetLimitBytes(); limit > 0 && size > limit {
		return nil, status.Errorf(codes.OutOfRange, "%d bytes are less than the least size %d", limit, int64(minimumBytes))
	}
	if existing, err := os.Stat(image); err == nil && existing.Size() != size {
		return nil, status.Errorf(codes.AlreadyExists, "volume %s has %d bytes", r.GetName(), existing.Size())
	}
	if err := enlarge(image, size); err != nil {
		return nil, err
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{VolumeId: r.GetName(), CapacityBytes: size}}, nil
}

func (d *driver) DeleteVolume(_ context.Context, r *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	d.lock.Lock()
	defer d.lock.Unlock()
	image, err := d.image(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if err := os.Remove(image); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	return &csi.DeleteVolumeResponse{}, nil
}

func (d *driver) ValidateVolumeCapabilities(_ context.Context, r *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if len(r.GetVolumeCapabilities()) == 0 {
		return nil, missing("volume_capabilities")
	}
	if _, err := d.existing(r.GetVolumeId()); err != nil {
		return nil, err
	}
	return &csi.ValidateVolumeCapabilitiesResponse{
		Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{VolumeCapabilities: r.GetVolumeCapabilities()},
	}, nil
}

func (d *driver) ControllerExpandVolume(_ context.Context, r *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
	if r.GetCapacityRange() == nil {
		return nil, missing("capacity_range")
	}
	d.lock.Lock()
	defer d.lock.Unlock()
	image, err := d.existing(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if err := enlarge(image, r.GetCapacityRange().GetRequiredBytes()); err != nil {
		return nil, err
	}
	file, err := os.Stat(image)
	if err != nil {
		return nil, err
	}
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: file.Size(), NodeExpansionRequired: true}, nil
}

func (d *driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: d.node}, nil
}

func (d *driver) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	rpc := func(t csi.NodeServiceCapability_RPC_Type) *csi.NodeServiceCapability {
		return &csi.NodeServiceCapability{Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: t}}}
	}
	return &csi.NodeGetCapabilitiesResponse{Capabilities: []*csi.NodeServiceCapability{
		rpc(csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME),
		rpc(csi.NodeServiceCapability_RPC_EXPAND_VOLUME),
		rpc(csi.NodeServiceCapability_RPC_GET_VOLUME_STATS),
	}}, nil
}

func (d *driver) NodeStageVolume(_ context.Context, r *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	if r.GetStagingTargetPath() == "" || r.GetVolumeCapability() == nil {
		return nil, missing("staging_target_path or volume_capability")
	}
	d.lock.Lock()
	defer d.lock.Unlock()
	image, err := d.existing(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	mounted, err := d.makeMountPoint(r.GetStagingTargetPath())
	if err != nil || mounted {
		return &csi.NodeStageVolumeResponse{}, err
	}
	device, err := d.deviceOf(image)
	if err != nil {
		return nil, err
	}
	if device == "" {
		if device, err = d.run("losetup", "--find", "--show", image); err != nil {
			return nil, err
		}
	}
	if err := d.mounter.FormatAndMount(device, r.GetStagingTargetPath(), fsType, nil); err != nil {
		return nil, err
	}
	return &csi.NodeStageVolumeResponse{}, nil
}

func (d *driver) NodeUnstageVolume(_ context.Context, r *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	if r.GetStagingTargetPath() == "" {
		return nil, missing("staging_target_path")
	}
	d.lock.Lock()
	defer d.lock.Unlock()
	image, err := d.image(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if err := mount.CleanupMountPoint(r.GetStagingTargetPath(), d.mounter, true); err != nil {
		return nil, err
	}
	device, err := d.deviceOf(image)
	if err != nil {
		return nil, err
	}
	if device != "" {
		if _, err := d.run("losetup", "--detach", device); err != nil {
			return nil, err
		}
	}
	return &csi.NodeUnstageVolumeResponse{}, nil
}

func (d *driver) NodePublishVolume(_ context.Context, r *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	if r.GetStagingTargetPath() == "" || r.GetTargetPath() == "" || r.GetVolumeCapability() == nil {
		return nil, missing("staging_target_path, target_path or volume_capability")
	}
	if _, err := d.existing(r.GetVolumeId()); err != nil {
		return nil, err
	}
	mounted, err := d.makeMountPoint(r.GetTargetPath())
	if err != nil || mounted {
		return &csi.NodePublishVolumeResponse{}, err
	}
	options := []string{"bind"}
	if r.GetReadonly() {
		options = append(options, "ro")
	}
	if err := d.mounter.Mount(r.GetStagingTargetPath(), r.GetTargetPath(), "", options); err != nil {
		return nil, err
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

func (d *driver) NodeUnpublishVolume(_ context.Context, r *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	if r.GetTargetPath() == "" {
		return nil, missing("target_path")
	}
	if _, err := d.existing(r.GetVolumeId()); err != nil {
		return nil, err
	}
	if err := mount.CleanupMountPoint(r.GetTargetPath(), d.mounter, true); err != nil {
		return nil, err
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

// NodeExpandVolume lets the loop device see the new size of its image, then the file system that of the device.
func (d *driver) NodeExpandVolume(_ context.Context, r *csi.NodeExpandVolumeRequest) (*csi.NodeExpandVolumeResponse, error) {
	if r.GetVolumePath() == "" {
		return nil, missing("volume_path")
	}
	d.lock.Lock()
	defer d.lock.Unlock()
	image, err := d.existing(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	device, err := d.deviceOf(image)
	if err != nil {
		return nil, err
	}
	if device == "" {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s has no device on this node", r.GetVolumeId())
	}
	if _, err := d.run("losetup", "--set-capacity", device); err != nil {
		return nil, err
	}
	if _, err := d.resizer.Resize(device, r.GetVolumePath()); err != nil {
		return nil, err
	}
	file, err := os.Stat(image)
	if err != nil {
		return nil, err
	}
	return &csi.NodeExpandVolumeResponse{CapacityBytes: file.Size()}, nil
}

func (d *driver) NodeGetVolumeStats(_ context.Context, r *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	if r.GetVolumePath() == "" {
		return nil, missing("volume_path")
	}
	if _, err := d.existing(r.GetVolumeId()); err != nil {
		return nil, err
	}
	if mounted, err := d.mounter.IsMountPoint(r.GetVolumePath()); err != nil || !mounted {
		return nil, status.Errorf(codes.NotFound, "nothing is mounted at %s", r.GetVolumePath())
	}
	var s unix.Statfs_t
	if err := unix.Statfs(r.GetVolumePath(), &s); err != nil {
		return nil, err
	}
	bytes := func(blocks uint64) int64 { return int64(blocks) * s.Bsize }
	return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{{
		Unit:      csi.VolumeUsage_BYTES,
		Total:     bytes(s.Blocks),
		Used:      bytes(s.Blocks - s.Bfree),
		Available: bytes(s.Bavail),
	}}}, nil
}

// image is the file behind a volume; an id is never a path.
func (d *driver) image(id string) (string, error) {
	if !volumeID.MatchString(id) {
		return "", status.Errorf(codes.InvalidArgument, "%q is not the id of a volume", id)
	}
	return filepath.Join(d.images, id), nil
}

func (d *driver) existing(id string) (string, error) {
	image, err := d.image(id)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(image); err != nil {
		return "", status.Errorf(codes.NotFound, "volume %s: %v", id, err)
	}
	return image, nil
}

// deviceOf answers with the loop device of an image; empty if it has none.
func (d *driver) deviceOf(image string) (string, error) {
	return d.run("losetup", "--noheadings", "--output", "NAME", "--associated", image)
}

func missing(fields string) error {
	return status.Errorf(codes.InvalidArgument, "the request has no %s", fields)
}

func (d *driver) makeMountPoint(path string) (mounted bool, err error) {
	if err := os.MkdirAll(path, 0o750); err != nil {
		return false, err
	}
	return d.mounter.IsMountPoint(path)
}

func (d *driver) run(command string, args ...string) (string, error) {
	output, err := d.exec.Command(command, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", command, strings.Join(args, " "), err, output)
	}
	return strings.TrimSpace(string(output)), nil
}

// enlarge makes a file at least this large. It takes space only where something is written.
func enlarge(image string, size int64) error {
	file, err := os.OpenFile(image, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	existing, err := file.Stat()
	if err != nil || existing.Size() >= size {
		return err
	}
	return file.Truncate(size)
}

func logErrors(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	response, err := handler(ctx, request)
	if err != nil {
		log.Printf("%s: %v", info.FullMethod, err)
	}
	return response, err
}
