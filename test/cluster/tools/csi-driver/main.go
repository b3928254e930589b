// Command csi-driver is a CSI driver for the local cluster. Each volume is an XFS file system on a loop
// device, so it has a size, can become full, and grows while it is mounted. ext4 is not used: it grows
// only with CAP_SYS_RESOURCE, which root of a virtual machine may not have.
package main

import (
	"flag"
	"log"
	"net"
	"os"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	"k8s.io/mount-utils"
	"k8s.io/utils/exec"
)

func main() {
	d := &driver{
		mounter: mount.NewSafeFormatAndMount(mount.New(""), exec.New()),
		resizer: mount.NewResizeFs(exec.New()),
		exec:    exec.New(),
	}
	var registrationSocket string
	flag.StringVar(&d.name, "name", "", "name of the driver")
	flag.StringVar(&d.node, "node", "", "name of the node")
	flag.StringVar(&d.images, "images", "", "folder of the images behind the loop devices")
	flag.StringVar(&d.socket, "socket", "", "socket for the sidecars and the kubelet")
	flag.StringVar(&registrationSocket, "registration", "", "socket in the kubelet's folder of plugins")
	flag.Parse()

	ended := make(chan error)
	serve(d.socket, ended, func(server *grpc.Server) {
		csi.RegisterIdentityServer(server, d)
		csi.RegisterControllerServer(server, d)
		csi.RegisterNodeServer(server, d)
	})
	serve(registrationSocket, ended, func(server *grpc.Server) {
		registration.RegisterRegistrationServer(server, &registrar{driver: d})
	})
	log.Fatal(<-ended)
}

// serve answers on a Unix socket; the channel gets the error that ends it.
func serve(socket string, ended chan<- error, register func(*grpc.Server)) {
	if err := os.Remove(socket); err != nil && !os.IsNotExist(err) {
		log.Fatal(err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(logErrors))
	register(server)
	go func() { ended <- server.Serve(listener) }()
}
