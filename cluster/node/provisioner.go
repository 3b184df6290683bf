package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	provisionerName = "orbiter.dev/directory"
	wantedOf        = "volume.kubernetes.io/storage-provisioner"
	madeBy          = "pv.kubernetes.io/provisioned-by"
	// What failed (the API server was away, the disk full) is tried again this often.
	retryEvery = 15 * time.Second
)

// provisioner gives every claim that asks for it a directory of its own. Kubernetes' built-in
// host-path provisioner makes directories only root can write to; these are open to any user,
// because a hostPath volume ignores a pod's fsGroup.
type provisioner struct {
	client    kubernetes.Interface
	directory string
}

func runProvisioner() error {
	kubeconfig := flag.String("kubeconfig", "", "how to reach the API server")
	directory := flag.String("directory", "", "where the volumes' directories are made")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	p := provisioner{client, *directory}
	factory := informers.NewSharedInformerFactory(client, retryEvery)
	watch := func(informer cache.SharedIndexInformer, handle func(context.Context, any) error) error {
		report := func(object any) {
			if err := handle(ctx, object); err != nil {
				log.Print(err)
			}
		}
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    report,
			UpdateFunc: func(_, object any) { report(object) },
		})
		return err
	}
	if err := watch(factory.Core().V1().PersistentVolumeClaims().Informer(), p.provision); err != nil {
		return err
	}
	if err := watch(factory.Core().V1().PersistentVolumes().Informer(), p.reclaim); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	<-ctx.Done()
	return nil
}

func (p provisioner) provision(ctx context.Context, object any) error {
	claim := object.(*core.PersistentVolumeClaim)
	wanted := claim.Annotations[wantedOf] == provisionerName && claim.Spec.StorageClassName != nil
	if !wanted || claim.Spec.VolumeName != "" {
		return nil
	}
	name := "pvc-" + string(claim.UID)
	path := filepath.Join(p.directory, name)
	if err := os.MkdirAll(path, 0o777); err != nil {
		return err
	}
	if err := os.Chmod(path, 0o777); err != nil { // whatever the umask is
		return err
	}
	directory := core.HostPathDirectory
	volume := &core.PersistentVolume{
		ObjectMeta: meta.ObjectMeta{
			Name:        name,
			Annotations: map[string]string{madeBy: provisionerName},
		},
		Spec: core.PersistentVolumeSpec{
			AccessModes: claim.Spec.AccessModes,
			Capacity:    core.ResourceList{"storage": claim.Spec.Resources.Requests["storage"]},
			ClaimRef: &core.ObjectReference{
				Kind: "PersistentVolumeClaim", APIVersion: "v1",
				Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			PersistentVolumeReclaimPolicy: core.PersistentVolumeReclaimDelete,
			PersistentVolumeSource: core.PersistentVolumeSource{
				HostPath: &core.HostPathVolumeSource{Path: path, Type: &directory},
			},
			StorageClassName: *claim.Spec.StorageClassName,
			VolumeMode:       claim.Spec.VolumeMode,
		},
	}
	_, err := p.client.CoreV1().PersistentVolumes().Create(ctx, volume, meta.CreateOptions{})
	if errors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func (p provisioner) reclaim(ctx context.Context, object any) error {
	volume := object.(*core.PersistentVolume)
	released := volume.Status.Phase == core.VolumeReleased &&
		volume.Spec.PersistentVolumeReclaimPolicy == core.PersistentVolumeReclaimDelete
	if !released || volume.Annotations[madeBy] != provisionerName || volume.Spec.HostPath == nil {
		return nil
	}
	path := filepath.Clean(volume.Spec.HostPath.Path)
	if !strings.HasPrefix(path, filepath.Clean(p.directory)+"/") {
		return nil // edited by hand: not ours to remove
	}
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	err := p.client.CoreV1().PersistentVolumes().Delete(ctx, volume.Name, meta.DeleteOptions{})
	if errors.IsNotFound(err) {
		return nil
	}
	return err
}
