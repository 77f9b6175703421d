// A peer of the fusion kernel: what ROS 2 does with one depth image, in three steps with the same work as
// depth_image_proc (convertDepth), tf2_sensor_msgs (doTransform) and pointcloud_to_laserscan (cloudCallback).

#include <cmath>
#include <cstdint>
#include <limits>

extern "C" {

void to_cloud(const uint16_t* depth, int height, int width, const double* lens, double unit_m, float* cloud) {
  const float constant_x = unit_m / lens[0], constant_y = unit_m / lens[1], cx = lens[2], cy = lens[3];
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (int v = 0; v < height; ++v)
    for (int u = 0; u < width; ++u, cloud += 3, ++depth) {
      if (*depth == 0) {
        cloud[0] = cloud[1] = cloud[2] = nan;
        continue;
      }
      cloud[0] = (u - cx) * *depth * constant_x;
      cloud[1] = (v - cy) * *depth * constant_y;
      cloud[2] = *depth * static_cast<float>(unit_m);
    }
}

void transform(float* cloud, int points, const double* base_from_camera) {
  float m[12];
  for (int i = 0; i < 12; ++i) m[i] = static_cast<float>(base_from_camera[i]);
  for (int i = 0; i < points; ++i, cloud += 3) {
    const float x = cloud[0], y = cloud[1], z = cloud[2];
    for (int k = 0; k < 3; ++k) cloud[k] = m[4 * k] * x + m[4 * k + 1] * y + m[4 * k + 2] * z + m[4 * k + 3];
  }
}

void to_scan(const float* cloud, int points, double z_min_m, double z_max_m, double range_max_m, int bins, float* ranges_m) {
  const double angle_min = -M_PI, increment = 2.0 * M_PI / bins;
  for (int i = 0; i < points; ++i, cloud += 3) {
    const float x = cloud[0], y = cloud[1], z = cloud[2];
    if (std::isnan(x) || std::isnan(y) || std::isnan(z)) continue;
    if (z > z_max_m || z < z_min_m) continue;
    const double range = std::hypot(x, y);
    if (range > range_max_m) continue;
    const double angle = std::atan2(y, x);
    if (angle < -M_PI || angle > M_PI) continue;
    int bin = (angle - angle_min) / increment;
    if (bin >= bins) bin = 0;
    if (range < ranges_m[bin]) ranges_m[bin] = range;
  }
}
}
